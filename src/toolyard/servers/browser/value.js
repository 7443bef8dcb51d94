// A value as JSON, bounded, whatever it is: cycles, functions, elements and very long texts included.
(value, most) => {
  const around = [];
  let left = most;
  let cut = false;
  const plain = (value) => {
    if (left <= 0) {
      cut = true;
      return null;
    }
    if (value === undefined || value === null) return null;
    const kind = typeof value;
    if (kind === "number") left -= 20;
    if (kind === "number") return Number.isFinite(value) ? value : String(value);
    if (kind === "boolean") return value;
    if (kind === "string") {
      const text = value.length > left ? value.slice(0, left) : value;
      cut ||= text.length < value.length;
      left -= text.length + 2;
      return text;
    }
    if (kind !== "object") return plain(String(value).slice(0, 200));
    if (value instanceof Node) return plain(`<${value.nodeName.toLowerCase()}> ${(value.textContent ?? "").slice(0, 200)}`);
    if (value instanceof Date) return plain(Number.isNaN(value.getTime()) ? String(value) : value.toISOString());
    if (value instanceof Error) return plain(String(value).slice(0, 500));
    if (around.includes(value) || around.length > 20) return "…";
    around.push(value);
    const made = members(value);
    around.pop();
    return made;
  };
  const members = (value) => {
    left -= 2;
    if (value instanceof Map) value = Object.fromEntries([...value].slice(0, left));
    if (value instanceof Set || value instanceof NodeList || value instanceof HTMLCollection) value = [...value];
    if (Array.isArray(value) || ArrayBuffer.isView(value)) {
      const list = [];
      for (const item of value) {
        if (left <= 0) {
          cut = true;
          break;
        }
        left -= 1;
        list.push(plain(item));
      }
      return list;
    }
    const made = {};
    for (const name of Object.keys(value)) {
      if (left <= 0) {
        cut = true;
        break;
      }
      left -= name.length + 4;
      made[name.slice(0, 200)] = plain(value[name]);
    }
    return made;
  };
  const json = JSON.stringify(plain(value));
  return { json, cut };
}
