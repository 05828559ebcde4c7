// Decodes the data that pack.py and columns.py pack.

const LONGEST_LINE = 160, WITHIN = 400; // characters of a line, and of the text to find one in; as in pack.py

export function decoded(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
  const text = atob(base64);
  const found = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) found[i] = text.charCodeAt(i);
  return found;
}

export async function inflated(data) {
  const stream = new Blob([data]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

export const utf8 = (data) => new TextDecoder("utf-8", { ignoreBOM: true }).decode(data);

// Facts, and the columns of an index; NaN is no number.
export function unpacked(data) {
  let at = data.indexOf(10);
  const { rows, widths, ...facts } = JSON.parse(utf8(data.subarray(0, at++)));
  const columns = {};
  for (const [name, width] of Object.entries(widths)) {
    const column = (columns[name] = new Float64Array(rows));
    for (let plane = 0, one = 1; plane < width; plane++, one *= 256, at += rows) for (let row = 0; row < rows; row++) column[row] += data[at + row] * one;
    for (let row = 0; row < rows; row++) {
      const coded = column[row];
      column[row] = coded === 0 ? NaN : coded % 2 ? (coded - 1) / 2 : -coded / 2;
    }
  }
  return { ...facts, rows, columns };
}

// Texts of consecutive rows, and the line of each. Similar texts are adjacent: those of one side, kind, method and
// name.
export class Block {
  constructor(whole, { columns }, first, rows) {
    const behind = whole.indexOf("\n");
    const { sizes, lines } = JSON.parse(whole.slice(0, behind));
    const order = Array.from({ length: rows }, (_, at) => first + at);
    const { client, kind, method, name, size } = columns;
    order.sort((a, b) => client[a] - client[b] || kind[a] - kind[b] || method[a] - method[b] || name[a] - name[b] || a - b);
    Object.assign(this, { whole, lines, first, places: new Uint32Array(rows), starts: [behind + 1] });
    order.forEach((row, place) => {
      this.places[row - first] = place;
      this.starts.push(this.starts[place] + (sizes[place] ?? size[row]));
    });
  }

  text(row) {
    const place = this.places[row - this.first];
    return this.whole.slice(this.starts[place], this.starts[place + 1]);
  }

  line(row) {
    const place = this.places[row - this.first];
    const line = this.lines[place];
    if (typeof line === "string") return line;
    const [start, length, spaced] = typeof line === "number" ? [line, LONGEST_LINE] : line;
    const from = this.starts[place] + start;
    if (!spaced) return this.whole.slice(from, from + length);
    // JSON without white space between tokens; the same as in pack.py.
    return this.whole.slice(from, Math.min(this.starts[place + 1], from + WITHIN)).replace(/("(?:[^"\\]|\\[^])*"?)|[ \n\r\t]+/g, "$1").slice(0, length);
  }
}
