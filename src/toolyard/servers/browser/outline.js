// Draws a document as an outline: what can be seen, by its role and name, with a number for what can be used.
// The numbers stay with their elements as long as the document lives; `held` remembers them between outlines.
([held, options]) => {
  const state = held ?? { numbers: new WeakMap(), elements: new Map() };
  let next = options.next;
  let lines = 0;
  let used = 0;
  let seen = 0;
  let full = false;

  const ROLES = {
    A: "link", ARTICLE: "article", ASIDE: "complementary", BUTTON: "button", DETAILS: "group", DIALOG: "dialog",
    FIELDSET: "group", FIGURE: "figure", FOOTER: "contentinfo", FORM: "form", FRAME: "iframe", HEADER: "banner",
    HR: "separator", IFRAME: "iframe", LI: "listitem", MAIN: "main", MENU: "list", METER: "meter",
    NAV: "navigation", OL: "list", OPTION: "option", P: "paragraph", PROGRESS: "progressbar", SECTION: "region",
    SELECT: "combobox", SUMMARY: "button", TABLE: "table", TD: "cell", TEXTAREA: "textbox", TH: "columnheader",
    TR: "row", UL: "list", BLOCKQUOTE: "blockquote", DT: "term", DD: "definition", VIDEO: "video", AUDIO: "audio",
  };
  const INPUTS = {
    button: "button", checkbox: "checkbox", image: "button", number: "spinbutton", radio: "radio", range: "slider",
    reset: "button", search: "searchbox", submit: "button", file: "file",
  };
  const USABLE = new Set(
    ("button checkbox combobox file iframe link listbox menuitem menuitemcheckbox menuitemradio option radio " +
      "searchbox slider spinbutton switch tab textbox treeitem video audio").split(" "),
  );
  const NAMED_BY_TEXT = new Set(
    ("button checkbox heading link menuitem menuitemcheckbox menuitemradio option radio switch tab treeitem " +
      "tooltip").split(" "),
  );
  const INSIDE = "a[href],button,input,select,textarea,summary,iframe,[role],[onclick],[tabindex]";
  const NEVER = new Set(["SCRIPT", "STYLE", "NOSCRIPT", "TEMPLATE", "HEAD", "META", "LINK", "TITLE", "OBJECT", "EMBED"]);
  const INLINE = new Set(
    "A ABBR B BDI BDO CITE CODE DATA DFN EM FONT I KBD LABEL MARK Q S SAMP SMALL SPAN STRONG SUB SUP TIME U VAR".split(" "),
  );

  const tidy = (text, most) => {
    const cut = text.length > most * 4 ? text.slice(0, most * 4) : text;
    const short = cut.replace(/\s+/g, " ").trim();
    return short.length > most ? short.slice(0, most) + "…" : short;
  };

  const roleOf = (el, tag) => {
    const given = el.getAttribute("role");
    if (given) {
      const first = given.trim().split(/\s+/, 1)[0].toLowerCase();
      return first === "presentation" || first === "none" || first === "generic" ? "" : first.slice(0, 40);
    }
    if (tag === "INPUT") return INPUTS[el.type] ?? "textbox";
    if (tag === "IMG") return el.getAttribute("alt") === "" ? "" : "img";
    if (tag === "A") return el.hasAttribute("href") ? "link" : "";
    if (tag === "SECTION" || tag === "FORM") return el.hasAttribute("aria-label") ? ROLES[tag] : "";
    if (tag === "SELECT") return el.multiple || el.size > 1 ? "listbox" : "combobox";
    if (/^H[1-6]$/.test(tag)) return "heading";
    if (tag === "svg") return el.hasAttribute("aria-label") ? "img" : "";
    return ROLES[tag] ?? "";
  };

  const nameOf = (el, tag, role) => {
    const by = el.getAttribute("aria-labelledby");
    if (by) {
      const parts = by.trim().split(/\s+/).slice(0, 5).map((id) => el.ownerDocument.getElementById(id)?.textContent ?? "");
      const name = tidy(parts.join(" "), 200);
      if (name) return name;
    }
    const label = el.getAttribute("aria-label");
    if (label) return tidy(label, 200);
    if (tag === "INPUT" || tag === "SELECT" || tag === "TEXTAREA") {
      if (role === "button") return tidy(el.value || el.alt || el.title || el.type, 200);
      if (el.labels && el.labels.length) {
        const own = [...el.labels].slice(0, 3).map((one) => ownText(one));
        return tidy(own.join(" "), 200);
      }
      return tidy(el.placeholder || el.title || "", 200);
    }
    if (tag === "IMG") return tidy(el.alt || el.title || "", 200);
    if (tag === "IFRAME" || tag === "FRAME") return tidy(el.title || el.name || "", 200);
    if (NAMED_BY_TEXT.has(role) || tag === "LABEL") {
      const text = tidy(el.textContent, 200);
      if (text) return text;
      const image = el.querySelector("img[alt],[aria-label],svg title");
      return tidy(image?.alt || image?.getAttribute?.("aria-label") || image?.textContent || el.title || "", 200);
    }
    return tidy(el.title || "", 200);
  };

  // Of a label around its field, without what the field holds.
  const ownText = (label) => {
    let text = "";
    for (const node of label.childNodes) {
      if (node.nodeType === 3) text += node.data;
      else if (!node.matches?.("select,textarea,input")) text += node.textContent;
    }
    return text;
  };

  const marks = (el, tag, role) => {
    let text = "";
    if (role === "heading") text += ` [level=${tidy(el.getAttribute("aria-level") ?? "", 4) || tag.slice(1)}]`;
    if (el.checked || el.getAttribute("aria-checked") === "true") text += " [checked]";
    if (el.disabled || el.getAttribute("aria-disabled") === "true") text += " [disabled]";
    if (tag === "OPTION" && el.selected) text += " [selected]";
    if (el.getAttribute("aria-selected") === "true") text += " [selected]";
    const expanded = el.getAttribute("aria-expanded") ?? (tag === "DETAILS" ? String(el.open) : null);
    if (expanded !== null) text += expanded === "true" ? " [expanded]" : " [collapsed]";
    if (el.ownerDocument.activeElement === el && tag !== "BODY") text += " [focused]";
    return text;
  };

  const valueOf = (el, tag) => {
    if (tag === "INPUT") {
      if (el.type === "password") return el.value ? "••••" : "";
      if (["checkbox", "radio", "button", "submit", "reset", "image", "file"].includes(el.type)) return "";
      return tidy(el.value, 200);
    }
    return tag === "TEXTAREA" ? tidy(el.value, 200) : "";
  };

  const numberOf = (el) => {
    let number = state.numbers.get(el);
    if (number === undefined) {
      number = next++;
      state.numbers.set(el, number);
      state.elements.set(number, new WeakRef(el));
    }
    return number;
  };

  const isUsable = (el, role) => {
    if (USABLE.has(role)) return true;
    // A drawn box in place of a hidden one is used by its label.
    if (el.tagName === "LABEL" && el.control && !el.control.checkVisibility()) return true;
    if (el.isContentEditable && !el.parentElement?.isContentEditable) return true;
    if (el.hasAttribute("onclick") || el.hasAttribute("tabindex")) return true;
    if (role) return false;
    const parent = el.parentElement;
    return getComputedStyle(el).cursor === "pointer" && !(parent && getComputedStyle(parent).cursor === "pointer");
  };

  const spend = (text) => {
    lines += 1;
    if (lines > options.start) used += text.length + 4;
    if (used > options.limit) full = true;
  };

  const flush = (parent, run) => {
    const text = run.silent ? "" : tidy(run.text, 2000);
    run.text = "";
    if (!text) return;
    parent.kids.push({ head: "", text, kids: [] });
    spend(text);
  };

  const kidsOf = (el) => {
    if (el.shadowRoot) return el.shadowRoot.childNodes;
    if (el.tagName === "SLOT") {
      const assigned = el.assignedNodes();
      if (assigned.length) return assigned;
    }
    return el.childNodes;
  };

  const walk = (el, parent, run, depth) => {
    for (const node of kidsOf(el)) {
      if (full) return;
      if (node.nodeType === 3) {
        if (node.data.trim()) run.text += node.data;
        else if (run.text) run.text += " ";
      } else if (node.nodeType === 1) visit(node, parent, run, depth + 1);
    }
  };

  const visit = (el, parent, run, depth) => {
    const tag = el.tagName;
    if (NEVER.has(tag) || depth > 600) return;
    seen += 1;
    if (tag === "BR") run.text += " ";
    // A slot has no box of its own, but what it shows has.
    if (tag !== "SLOT" && !el.checkVisibility({ visibilityProperty: true })) {
      if (getComputedStyle(el).display !== "contents") return;
    }
    if (el.getAttribute("aria-hidden") === "true" || (tag === "INPUT" && el.type === "hidden")) return;
    const role = roleOf(el, tag);
    const usable = isUsable(el, role);
    if (!role && !usable) {
      // What a label says is the name of its field.
      if (tag === "LABEL" && el.control) {
        flush(parent, run);
        return walk(el, parent, { text: "", silent: true }, depth);
      }
      if (INLINE.has(tag)) return walk(el, parent, run, depth);
      flush(parent, run);
      walk(el, parent, run, depth);
      return flush(parent, run);
    }
    flush(parent, run);
    if (full) return;
    parent.kids.push(line(el, tag, role, usable, depth));
  };

  const line = (el, tag, role, usable, depth) => {
    const name = nameOf(el, tag, role);
    let head = role || "generic";
    if (name) head += " " + JSON.stringify(name);
    head += marks(el, tag, role);
    if (usable && tag !== "OPTION") head += ` [ref=${options.prefix}e${numberOf(el)}]`;
    if (role === "link" && el.href && typeof el.href === "string") head += ` [url=${tidy(el.getAttribute("href") ?? "", 200)}]`;
    const node = { head, text: valueOf(el, tag), kids: [], plain: false, frame: role === "iframe" && usable ? numberOf(el) : 0 };
    spend(head + node.text);
    if (tag === "SELECT") choices(el, node);
    else if (tag !== "TEXTAREA" && tag !== "IFRAME" && tag !== "FRAME") inside(el, role, name, usable, node, depth);
    return node;
  };

  const choices = (el, node) => {
    const all = [...el.options];
    for (const option of all.slice(0, 50)) {
      const head = `option ${JSON.stringify(tidy(option.textContent, 100))}` + (option.selected ? " [selected]" : "");
      node.kids.push({ head, text: "", kids: [] });
      spend(head);
    }
    if (all.length > 50) node.kids.push({ head: `option … ${all.length - 50}`, text: "", kids: [] });
    seen += all.length;
  };

  const inside = (el, role, name, usable, node, depth) => {
    // Its text is its name already; only what can be used is left to show.
    if (name && (NAMED_BY_TEXT.has(role) || el.tagName === "LABEL") && !el.shadowRoot && !el.querySelector(INSIDE)) {
      seen += el.getElementsByTagName("*").length;
      return;
    }
    const run = { text: "" };
    walk(el, node, run, depth);
    flush(node, run);
    if (role === "row" && node.kids.every((kid) => kid.plain)) {
      node.text = node.kids.map((kid) => kid.text).join(" | ");
      node.kids = [];
    }
    if (!node.text && node.kids.length === 1 && !node.kids[0].head) node.text = node.kids.pop().text;
    node.plain = /^(cell|gridcell|columnheader|rowheader)$/.test(role) && !usable && !node.kids.length;
  };

  const root = { kids: [] };
  const top = document.body ?? document.documentElement;
  const run = { text: "" };
  if (top) walk(top, root, run, 0);
  flush(root, run);

  const out = [];
  const frames = [];
  let row = 0;
  let spent = 0;
  const write = (node, indent) => {
    const text = "  ".repeat(Math.min(indent, 40)) + "- " +
      (node.head ? node.head + (node.text || node.kids.length ? ":" : "") + (node.text ? " " + node.text : "") : "text: " + node.text);
    row += 1;
    if (row > options.start && spent + text.length <= options.limit) {
      if (node.frame) frames.push([out.length, node.frame, Math.min(indent, 40) + 1]);
      spent += text.length + 1;
      out.push(text);
    } else if (row > options.start) {
      full = true;
      spent = options.limit;
    }
    for (const kid of node.kids) write(kid, indent + 1);
  };
  for (const node of root.kids) write(node, 0);

  const total = document.getElementsByTagName("*").length;
  // One text, not a list: a list is taken apart and put together again item by item on its way.
  state.report = { lines: out.join("\n"), frames, next, total, seen, full, title: document.title.slice(0, 500) };
  return state;
}
