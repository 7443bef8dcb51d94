// What a part of a page says, as text in the manner of Markdown.
(root, most) => {
  const out = [];
  let size = 0;
  const SKIP = new Set("SCRIPT STYLE NOSCRIPT TEMPLATE HEAD SVG OBJECT EMBED CANVAS SELECT".split(" "));
  const BLOCK = new Set(
    ("ADDRESS ARTICLE ASIDE BLOCKQUOTE DD DETAILS DIALOG DIV DL DT FIELDSET FIGURE FOOTER FORM HEADER HR LI MAIN " +
      "NAV OL P PRE SECTION SUMMARY TABLE UL BODY").split(" "),
  );
  const say = (text) => {
    out.push(text);
    size += text.length;
  };
  const flat = (text) => text.replace(/\s+/g, " ");
  const kidsOf = (el) => (el.shadowRoot ? el.shadowRoot.childNodes : el.childNodes);

  const table = (el) => {
    say("\n\n");
    let first = true;
    for (const row of el.rows) {
      if (size > most) return;
      const cells = [...row.cells].map((cell) => flat(cell.innerText).trim().replaceAll("|", "\\|"));
      say(`| ${cells.join(" | ")} |\n`);
      if (first) say(`|${" --- |".repeat(cells.length)}\n`);
      first = false;
    }
    say("\n");
  };

  const walk = (el, depth) => {
    for (const node of kidsOf(el)) {
      if (size > most || depth > 600) return;
      if (node.nodeType === 3) say(flat(node.data));
      else if (node.nodeType === 1) visit(node, depth + 1);
    }
  };

  const visit = (el, depth) => {
    const tag = el.tagName.toUpperCase();
    if (SKIP.has(tag)) return;
    if (!el.checkVisibility({ visibilityProperty: true }) && getComputedStyle(el).display !== "contents") return;
    if (tag === "BR") return say("\n");
    if (tag === "HR") return say("\n\n---\n\n");
    if (tag === "IMG") return el.alt ? say(`![${flat(el.alt)}]`) : undefined;
    if (tag === "PRE") return say(`\n\n\`\`\`\n${el.innerText.slice(0, most)}\n\`\`\`\n\n`);
    if (tag === "INPUT" || tag === "TEXTAREA") return;
    if (tag === "TABLE" && !el.querySelector("table")) return table(el);
    if (/^H[1-6]$/.test(tag)) say(`\n\n${"#".repeat(Number(tag[1]))} `);
    else if (tag === "LI") say("\n- ");
    else if (BLOCK.has(tag)) say("\n\n");
    const link = tag === "A" && el.getAttribute("href");
    if (link) say("[");
    walk(el, depth);
    if (link) say(`](${link.slice(0, 500)})`);
    if (tag === "BUTTON" || tag === "LABEL") say(" ");
    if (BLOCK.has(tag) && tag !== "LI") say("\n\n");
    else if (/^H[1-6]$/.test(tag)) say("\n\n");
  };

  visit(root, 0);
  return out
    .join("")
    .replace(/[ \t]+\n/g, "\n")
    .replace(/\n[ \t]+(?=\S)/g, "\n")
    .replace(/\n{3,}/g, "\n\n")
    .trim();
}
