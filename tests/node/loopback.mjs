// Given to node with --import: a server that names no host listens on loopback only, on any free port, and says which.

import net from "node:net";

const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (_port, ...rest) {
  this.once("listening", () => console.log(`http://127.0.0.1:${this.address().port}`));
  return listen.call(this, { port: 0, host: "127.0.0.1" }, ...rest);
};
