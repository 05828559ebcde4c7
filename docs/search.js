// Search takes each word as a prefix. The "a" in "what is a frame" finds "api" and "agents": such words are left out of
// questions. And "frame" finds "framework": a whole word counts more than one that only begins with it.
const PLAIN = new Set(
  "a an and are as at be been by can could do does for from get gets had has have how i if in is it its me my of on or our so than that the their them there this to was we what when where which who why will with would you your".split(" "),
);
const WHOLE = 4; // times
const QUERY = 2; // among the messages to Material's search worker
const post = Worker.prototype.postMessage;
Worker.prototype.postMessage = function (message, ...rest) {
  if (message?.type === QUERY && typeof message.data === "string") {
    const words = message.data.split(/\s+/);
    const telling = words.filter((word, i) => i === words.length - 1 || !PLAIN.has(word.toLowerCase().replace(/\W/g, "")));
    message = { ...message, data: telling.flatMap(terms).join(" ") };
  }
  return post.call(this, message, ...rest);
};

function terms(asked) {
  const word = asked.replace(/\?+$/, "");
  const singular = word.replace(/([^s]{3})s$/, "$1"); // as a prefix, it finds both
  const whole = /^\w+$/.test(word) ? [...new Set([word, singular])].map((form) => `${form}^${WHOLE}`) : [];
  return [...whole, singular];
}
