export * from "./tape.js";
