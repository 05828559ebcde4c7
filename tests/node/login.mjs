// A login, for the programs of both TypeScript SDKs: see ../clients/login2.py. They refresh when a token is refused.

import { appendFileSync } from "node:fs";

// Adds secrets to the file that LOGIN_SECRETS names, for tests to search for.
const keep = (...secrets) => {
  const file = process.env.LOGIN_SECRETS;
  if (file) appendFileSync(file, secrets.filter(Boolean).map((secret) => `${secret}\n`).join(""));
};
const REDIRECT = "http://127.0.0.1:9/callback";

export async function play(url, tools, { Client, Transport, Unauthorized }) {
  const kept = {};
  let came;
  const provider = {
    redirectUrl: REDIRECT,
    clientMetadata: {
      client_name: "login",
      redirect_uris: [REDIRECT],
      response_types: ["code"],
      grant_types: ["authorization_code", "refresh_token"],
    },
    state: () => "a state",
    clientInformation: () => kept.client,
    saveClientInformation: (client) => {
      kept.client = client;
      keep(client.client_secret);
    },
    tokens: () => kept.tokens,
    saveTokens: (tokens) => {
      kept.tokens = tokens;
      keep(tokens.access_token, tokens.refresh_token);
      console.log("a token");
    },
    codeVerifier: () => kept.verifier,
    saveCodeVerifier: (verifier) => {
      kept.verifier = verifier;
      keep(verifier);
    },
    invalidateCredentials: (what) => {
      if (what === "all" || what === "tokens") delete kept.tokens;
      if (what === "all" || what === "client") delete kept.client;
    },
    redirectToAuthorization: async (page) => {
      let at = String(page);
      const cookies = new Map();
      while (!at.startsWith(REDIRECT)) {
        const cookie = [...cookies].map((pair) => pair.join("=")).join("; ");
        const answer = await fetch(at, { redirect: "manual", headers: cookie ? { cookie } : {} });
        for (const set of answer.headers.getSetCookie()) {
          const [, name, value] = /^([^=]+)=([^;]*)/.exec(set);
          cookies.set(name, value);
          keep(value);
        }
        if (answer.status >= 400) throw new Error(`the page says ${answer.status}: ${await answer.text()}`);
        at = String(new URL(answer.headers.get("location"), at));
      }
      came = new URL(at).searchParams;
      keep(came.get("code"));
      console.log("logged in");
    },
  };

  let client, transport;
  async function connect() {
    transport = new Transport(new URL(url), { authProvider: provider });
    client = new Client({ name: "login", version: "1.0" });
    await client.connect(transport);
  }

  async function withLogin(step) {
    for (let tries = 0; ; tries++) {
      try {
        return await step();
      } catch (error) {
        if (!(error instanceof Unauthorized) || tries > 1) throw error;
        await transport.finishAuth(came.get("code"), came.get("iss") ?? undefined);
      }
    }
  }

  await withLogin(connect);
  for (const name of tools) {
    if (name === "later") {
      kept.tokens = { ...kept.tokens, access_token: "expired" };
      continue;
    }
    const result = await withLogin(() => client.callTool({ name, arguments: {} }));
    console.log(name, result.content[0].text);
  }
  await client.close();
}
