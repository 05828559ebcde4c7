// Search takes each word as a prefix: the "a" in "what is a frame" finds "api" and "agents". Leave such words out of questions.
const PLAIN = new Set(
  "a an and are as at be been by can could do does for from get gets had has have how i if in is it its me my of on or our so than that the their them there this to was we what when where which who why will with would you your".split(" "),
);
const QUERY = 2; // among the messages to Material's search worker
const post = Worker.prototype.postMessage;
Worker.prototype.postMessage = function (message, ...rest) {
  if (message?.type === QUERY && typeof message.data === "string") {
    const words = message.data.split(/\s+/);
    const telling = words.filter((word, i) => i === words.length - 1 || !PLAIN.has(word.toLowerCase().replace(/\W/g, "")));
    const singular = telling.map((word) => word.replace(/\?+$/, "").replace(/([^s]{3})s$/, "$1")); // finds both
    message = { ...message, data: singular.join(" ") };
  }
  return post.call(this, message, ...rest);
};
