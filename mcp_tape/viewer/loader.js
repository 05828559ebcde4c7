
"use strict";
// The page's code is packed, like its data. Its hash is in the policy too; nothing else can run.
(async () => {
  const data = Uint8Array.from(atob(document.getElementById("code").textContent), (byte) => byte.charCodeAt(0));
  const stream = new Blob([data]).stream().pipeThrough(new DecompressionStream("deflate"));
  const script = document.createElement("script");
  script.textContent = await new Response(stream).text();
  document.body.append(script);
  script.remove();
})();
