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

// Facts, and the columns of an index.
export function unpacked(data) {
  let at = data.indexOf(10);
  const { rows, widths, ...facts } = JSON.parse(utf8(data.subarray(0, at++)));
  const columns = {};
  for (const [name, width] of Object.entries(widths)) {
    const column = (columns[name] = new Array(rows));
    for (let row = 0; row < rows; row++) {
      let coded = 0;
      for (let plane = width - 1; plane >= 0; plane--) coded = coded * 256 + data[at + plane * rows + row];
      column[row] = coded === 0 ? null : coded % 2 ? (coded - 1) / 2 : -coded / 2;
    }
    at += width * rows;
  }
  return { ...facts, columns };
}

// Texts of consecutive rows, and the line of each. Similar texts are adjacent: those of one side, kind, method and
// name.
export class Block {
  constructor(whole, { columns }, first, rows) {
    const behind = whole.indexOf("\n");
    const { sizes, lines } = JSON.parse(whole.slice(0, behind));
    const order = Array.from({ length: rows }, (_, at) => first + at);
    const { client, kind, method, name, size } = columns;
    order.sort((a, b) => client[a] - client[b] || (kind[a] ?? -1) - (kind[b] ?? -1) || (method[a] ?? -1) - (method[b] ?? -1) || (name[a] ?? -1) - (name[b] ?? -1) || a - b);
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
