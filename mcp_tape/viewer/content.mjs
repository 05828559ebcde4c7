// Message content by type: text, Markdown, images, sound, resources. Nothing is loaded or executed: elements are made
// one by one, and addresses stay text.

import { el, harmless, pre, visible, bytes } from "./text.mjs";
import { decoded } from "./packed.mjs";
import { isTree, member, tree } from "./tree.mjs";

const PICTURE = /^image\/(?:png|jpeg|gif|webp|avif|bmp|svg\+xml)$/i;
const SOUND = /^audio\/[\w.+-]+$/i;
const BASE64 = /^[A-Za-z0-9+/=\s]*$/;
const MARKDOWN = /^(?:#{1,6} |[-*] |\d+\. |```|> |\|.*\|)|\*\*[^*\n]+\*\*|\[[^\]\n]+\]\([^)\n]+\)/m;

// The contents of a result or request as elements; empty if there is only JSON to show.
export function contents(message, text) {
  const body = message?.result ?? message?.error ?? message?.params;
  if (!body || typeof body !== "object") return [];
  const found = [];
  const take = (one) => {
    const shown = one && typeof one === "object" ? block(one) : null;
    if (shown) found.push(shown);
  };
  for (const name of ["content", "contents", "messages"]) {
    const list = body[name];
    for (const one of Array.isArray(list) ? list.slice(0, 100) : list ? [list] : []) {
      if (!one || typeof one !== "object") continue;
      if (one.role && one.content) found.push(el("h4", {}, harmless(one.role)));
      for (const inner of one.role && one.content ? [one.content].flat() : [one]) take(inner);
    }
  }
  if (body.structuredContent !== undefined) found.push(titled("structured content", tree(member(text, "result", "structuredContent") ?? "")));
  if (message.error) found.push(el("p", { class: "error-text" }, `${harmless(body.code ?? "")} `, visible(String(body.message ?? ""))));
  if (body.arguments && typeof body.arguments === "object") found.push(titled("arguments", tree(member(text, "params", "arguments") ?? "")));
  return found;
}

function titled(title, shown) {
  return el("figure", {}, el("figcaption", {}, title), shown);
}

function block(one) {
  if (typeof one.text === "string") return said(one.text, one.mimeType, one.uri);
  if (one.resource && typeof one.resource === "object") return block(one.resource);
  const data = one.data ?? one.blob;
  if (typeof data === "string") return media(data, String(one.mimeType ?? ""), one.uri);
  if (typeof one.uri === "string") return titled("link", el("p", {}, el("strong", {}, visible(String(one.title ?? one.name ?? ""))), " ", el("code", {}, visible(one.uri))));
  return null;
}

function said(words, type, uri) {
  const title = [uri, type].filter((word) => typeof word === "string").map(harmless).join(" · ");
  if (/^ui:/i.test(uri ?? "") && /^text\/html\b/i.test(type ?? "")) return app(words, title);
  if (isTree(words) && isJson(words)) return titled(title || "JSON", tree(words));
  if (type === "text/markdown" || (!type && words.length < 100_000 && MARKDOWN.test(words))) {
    const [shown, source] = [el("div", { class: "markdown" }, ...markdown(words)), pre(words)];
    source.hidden = true;
    const turn = el("button", { type: "button", onclick: () => ([shown.hidden, source.hidden] = [source.hidden, shown.hidden]) }, "source");
    return el("figure", {}, el("figcaption", {}, title ? `${title} ` : "Markdown ", turn), shown, source);
  }
  return title ? titled(title, pre(words)) : pre(words);
}

// The page of an MCP App without its scripts and styles. Its frame runs no scripts, submits nothing and is of no origin; its
// policy lets it load nothing; and what would try is left out, because a policy has no word for preconnections.
const APP_POLICY = '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; form-action \'none\'; base-uri \'none\'">';
const ACTIVE = "script, style, link, meta, base, iframe, frame, frameset, object, embed, audio, video, template, noscript";
const ADDRESS = /^(?:xlink:)?(?:href|src|srcset|imagesrcset|action|formaction|background|poster|ping|data|style|on.*)$/i;
function app(words, title) {
  const frame = el("iframe", { sandbox: "", referrerpolicy: "no-referrer", title: "the page of the app, of which nothing runs or is loaded" });
  frame.srcdoc = `<!doctype html>${APP_POLICY}${inert(words)}`;
  const source = pre(words);
  source.hidden = true;
  const turn = el("button", { type: "button", onclick: () => ([frame.hidden, source.hidden] = [source.hidden, frame.hidden]) }, "source");
  return el("figure", { class: "app" }, el("figcaption", {}, `${title} · without its scripts and styles `, turn), frame, source);
}

// A page without what runs and what loads. A document that is only parsed does neither:
// https://html.spec.whatwg.org/multipage/dynamic-markup-insertion.html#dom-domparser-parsefromstring
function inert(words) {
  const page = new DOMParser().parseFromString(words, "text/html");
  for (const one of page.querySelectorAll(ACTIVE)) one.remove();
  for (const one of page.querySelectorAll("*")) {
    for (const { name, value } of [...one.attributes]) if (ADDRESS.test(name) && !/^(?:data:image\/|#)/i.test(value)) one.removeAttribute(name);
  }
  return new XMLSerializer().serializeToString(page.body);
}

function isJson(said) {
  try {
    JSON.parse(said);
    return true;
  } catch {
    return false;
  }
}

function media(data, type, uri) {
  const title = [uri, type, bytes(Math.floor((data.length * 3) / 4))].filter(Boolean).map(harmless).join(" · ");
  const words = /^text\//i.test(type) && data.length < 1_000_000 ? textOf(data) : null;
  if (words !== null) return said(words, type, uri);
  const address = `data:${type};base64,${data.replace(/\s+/g, "")}`;
  if (BASE64.test(data) && PICTURE.test(type)) return titled(title, el("img", { src: address, alt: `picture, ${harmless(type)}` }));
  if (BASE64.test(data) && SOUND.test(type)) return titled(title, el("audio", { src: address, controls: true, preload: "metadata" }));
  return titled(title || "data", pre(data.slice(0, 2_000) + (data.length > 2_000 ? " …" : "")));
}

function textOf(data) {
  try {
    return new TextDecoder().decode(decoded(data));
  } catch {
    return null; // not base64
  }
}

// -- Markdown: the parts that tools use most. Unknown markup stays as written.

function markdown(source) {
  const found = [];
  const lines = source.split("\n");
  for (let at = 0; at < lines.length; ) {
    const line = lines[at];
    const heading = /^(#{1,6}) (.*)/.exec(line);
    const mark = /^\s*(?:[-*+]|\d+\.) /.exec(line);
    if (/^\s*```/.test(line)) {
      const start = ++at;
      while (at < lines.length && !/^\s*```/.test(lines[at])) at++;
      found.push(pre(lines.slice(start, at++).join("\n")));
    } else if (heading) {
      found.push(el(`h${Math.min(6, heading[1].length + 2)}`, {}, ...inline(heading[2])));
      at++;
    } else if (mark) {
      const list = el(/\d/.test(mark[0]) ? "ol" : "ul", {});
      for (let item; at < lines.length && (item = /^\s*(?:[-*+]|\d+\.) (.*)/.exec(lines[at])); at++) list.append(el("li", {}, ...inline(item[1])));
      found.push(list);
    } else if (/^\|.*\|\s*$/.test(line)) {
      const table = el("table", {});
      for (; at < lines.length && /^\|.*\|\s*$/.test(lines[at]); at++) {
        if (/^\|[\s:|-]+\|\s*$/.test(lines[at])) continue;
        const cells = lines[at].trim().slice(1, -1).split("|").map((cell) => el("td", {}, ...inline(cell.trim())));
        table.append(el("tr", {}, ...cells));
      }
      found.push(table);
    } else if (/^> ?/.test(line)) {
      const quote = el("blockquote", {});
      for (; at < lines.length && /^> ?/.test(lines[at]); at++) quote.append(...inline(lines[at].replace(/^> ?/, "")), el("br"));
      found.push(quote);
    } else if (!line.trim()) {
      at++;
    } else {
      const start = at++;
      while (at < lines.length && lines[at].trim() && !/^(?:#{1,6} |\s*(?:[-*+]|\d+\.) |\s*```|\||> ?)/.test(lines[at])) at++;
      found.push(el("p", {}, ...inline(lines.slice(start, at).join("\n"))));
    }
  }
  return found;
}

function inline(source) {
  const found = [];
  let from = 0;
  for (const one of source.matchAll(/`([^`\n]+)`|\*\*([^*\n]+)\*\*|\[([^\]\n]+)\]\(([^)\s]+)\)/g)) {
    found.push(visible(source.slice(from, one.index)));
    if (one[1]) found.push(el("code", {}, visible(one[1])));
    else if (one[2]) found.push(el("strong", {}, visible(one[2])));
    else found.push(el("span", { class: "link" }, visible(one[3])), " (", el("code", {}, visible(one[4])), ")");
    from = one.index + one[0].length;
  }
  found.push(visible(source.slice(from)));
  return found;
}
