// Tables that can be copied as CSV.

/** One cell for CSV. A text that a spreadsheet would take for a formula gets a quote before it. */
function csvCell(value) {
  let text = String(value ?? "");
  if (/^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text))) text = "'" + text;
  return /[",\n\r]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
}

function csv(lines) {
  return lines.map((row) => row.map(csvCell).join(",")).join("\n") + "\n";
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Browsers that keep the clipboard from pages opened from disk still copy a selection.
    const area = make("textarea", { readonly: true, style: "position:fixed;left:-99rem" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    if (!done) throw new Error("the browser does not let the page copy");
  }
}

/** A table with a button that copies it, or `copied` in its stead; `marked` says which rows stand out. A cell is a text, or elements. */
function table(header, rows, { marked = () => false, label = "table", copied = [header, ...rows], kind = "" } = {}) {
  const message = make("span", { class: "soft", role: "status" });
  const copy = async () => {
    try {
      await copyText(csv(copied));
      message.textContent = `${rows.length} rows copied`;
    } catch (error) {
      message.textContent = error.message;
    }
  };
  return make(
    "div",
    { class: `table ${kind}` },
    make(
      "div",
      { class: "wide", tabindex: 0, role: "region", "aria-label": label },
      make(
        "table",
        {},
        make("thead", {}, make("tr", {}, header.map((name) => make("th", { scope: "col" }, name)))),
        make(
          "tbody",
          {},
          rows.map((row) =>
            make("tr", { class: marked(row) ? "differs" : null }, row.map((cell) => make("td", {}, cell)))
          )
        )
      )
    ),
    make("div", { class: "bar" }, make("button", { type: "button", onclick: copy, "aria-label": `Copy ${label} as CSV` }, "Copy as CSV"), message)
  );
}
