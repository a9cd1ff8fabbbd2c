// From the page's data to typed arrays.

function json(id) {
  return JSON.parse(document.getElementById(id).textContent);
}

function bytes(text) {
  const raw = atob(text);
  const found = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) found[i] = raw.charCodeAt(i);
  return found;
}

/** Little-endian numbers; every machine with a browser is. */
function numbers(text, Kind) {
  return new Kind(bytes(text).buffer);
}

/** A compressed list of texts. */
async function texts(text) {
  const stream = new Blob([bytes(text)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}
