// A protected server, and oidc-provider as its authorization server: node oidc.mjs
//
// It prints its address. Nobody has to press a button: interactions end at once.

import { createServer } from "node:http";
import { Provider, errors } from "oidc-provider";

const listening = (server) =>
  new Promise((done) => server.listen(0, "127.0.0.1", () => done(`http://127.0.0.1:${server.address().port}`)));
let answer = () => {};
let authorize = () => {};
const api = createServer((request, response) => answer(request, response));
const auth = createServer((request, response) => authorize(request, response));
const [origin, issuer] = [await listening(api), await listening(auth)];
const resource = `${origin}/mcp`;

const provider = new Provider(issuer, {
  clients: [],
  cookies: { keys: ["of a test"] },
  scopes: ["openid", "offline_access", "read"],
  pkce: { required: () => true },
  rotateRefreshToken: true,
  issueRefreshToken: () => true,
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
  features: {
    devInteractions: { enabled: false },
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => undefined,
      useGrantedResource: () => true,
      getResourceServerInfo: (_, asked) => {
        if (asked !== resource) throw new errors.InvalidTarget();
        return { scope: "read", audience: asked, accessTokenFormat: "opaque", accessTokenTTL: 3600 };
      },
    },
  },
});

authorize = async (request, response) => {
  if (!request.url.startsWith("/interaction/")) return provider.callback()(request, response);
  const { params, grantId } = await provider.interactionDetails(request, response);
  const grant = grantId
    ? await provider.Grant.find(grantId)
    : new provider.Grant({ accountId: "ada", clientId: params.client_id });
  grant.addOIDCScope("openid offline_access read");
  grant.addResourceScope(resource, "read");
  const result = { login: { accountId: "ada" }, consent: { grantId: await grant.save() } };
  return provider.interactionFinished(request, response, result, { mergeWithLastSubmission: true });
};

answer = async (request, response) => {
  const say = (status, value, headers = {}) => {
    response.writeHead(status, { "content-type": "application/json", ...headers });
    response.end(value === undefined ? undefined : JSON.stringify(value));
  };
  const described = "/.well-known/oauth-protected-resource/mcp";
  if (request.url === described) return say(200, { resource, authorization_servers: [issuer], scopes_supported: ["read"] });
  const token = await provider.AccessToken.find((request.headers.authorization ?? "").slice("Bearer ".length));
  if (token?.aud !== resource) {
    return say(401, { error: "invalid_token" }, { "www-authenticate": `Bearer resource_metadata="${origin}${described}"` });
  }
  if (request.method !== "POST") return say(405);
  let body = "";
  for await (const piece of request) body += piece;
  const { id, method } = JSON.parse(body);
  if (id === undefined) return say(202);
  const results = {
    initialize: { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo: { name: "oidc", version: "1" } },
    "tools/list": { tools: [{ name: "whoami", inputSchema: { type: "object" } }] },
    "tools/call": { content: [{ type: "text", text: token.accountId }] },
  };
  const found = results[method];
  return say(200, { jsonrpc: "2.0", id, ...(found ? { result: found } : { error: { code: -32601, message: "no" } }) });
};

console.log(origin);
