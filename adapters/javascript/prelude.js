// What functions of design documents find in CouchDB, besides the language itself. It returns a function that reads the
// design document, and makes its modules known to require. A module is of mostCode characters at most.
(function (text, mostCode) {
  const design = JSON.parse(text);
  const global = globalThis;
  const most = 1 << 20; // characters of a string that one call makes

  global.isArray = Array.isArray;
  global.toJSON = JSON.stringify;
  global.sum = function (values) { return values.reduce(function (a, b) { return a + b; }, 0); };
  // A validation function sees credentials, so what it logs goes nowhere. The others are for views and lists.
  for (const name of ["log", "emit", "provides", "registerType", "start", "send", "getRow"]) {
    global[name] = function () {};
  }

  // The interpreter cannot be interrupted in these.
  const repeat = String.prototype.repeat, fill = Array.prototype.fill;
  const bounded = function (n) { if (n > most) { throw new RangeError("the result is too long"); } };
  String.prototype.repeat = function (n) { bounded(n * this.length); return repeat.call(this, n); };
  for (const name of ["padStart", "padEnd"]) {
    const pad = String.prototype[name];
    String.prototype[name] = function (n, s) { bounded(n); return pad.call(this, n, s); };
  }
  Array.prototype.fill = function (...args) { bounded(this.length); return fill.apply(this, args); };

  const parse = JSON.parse; // a text that is nested takes much stack
  JSON.parse = function (text, reviver) {
    text = `${text}`;
    bounded(text.length);
    return parse(text, reviver);
  };

  // As in CouchDB's query server, no code is made of text, which would be as long, and nested as deep, as can be.
  const evaluate = global.eval;
  const blocked = function () { throw new EvalError("call to eval() blocked by CSP"); };
  for (const f of [function () {}, function* () {}, async function () {}]) {
    Object.defineProperty(Object.getPrototypeOf(f), "constructor", {value: blocked});
  }
  blocked.prototype = Object.getPrototypeOf(blocked);
  global.eval = global.Function = blocked;

  const wrong = function (reason) { return ["error", "invalid_require_path", reason]; };
  const at = function (path) {
    let value = design;
    for (const name of path) {
      if (value === null || typeof value !== "object" || !Object.hasOwn(value, name)) {
        throw wrong('Object has no property "' + name + '".');
      }
      value = value[name];
    }
    if (typeof value !== "string") {
      throw wrong("Must require a JavaScript string, not: " + typeof value);
    }
    return value;
  };
  const loaded = {};
  const requireFrom = function (folder) {
    return function (name) {
      let path = String(name).split("/");
      if (path[0] === "." || path[0] === "..") {
        path = folder.concat(path);
      }
      const whole = [];
      for (const part of path) {
        if (part === ".." && whole.length === 0) {
          throw wrong("Object has no parent");
        }
        if (part === "..") { whole.pop(); } else if (part !== ".") { whole.push(part); }
      }
      const id = whole.join("/");
      if (!Object.hasOwn(loaded, id)) {
        const module = {id: id, exports: {}}, code = at(whole);
        if (code.length > mostCode) {
          throw wrong("the module is longer than " + mostCode + " characters");
        }
        loaded[id] = module;
        evaluate("(function (module, exports, require) { " + code + "\n })")
          .call(global, module, module.exports, requireFrom(whole.slice(0, -1)));
      }
      return loaded[id].exports;
    };
  };
  global.require = requireFrom([]);
  return design;
})
