// Elements are made by functions, and texts only ever become text nodes: nothing that a server, a document or a user
// is called can turn into markup or script.

const svgNames = 'http://www.w3.org/2000/svg'

// build gives an element its properties and children. Names that begin with "on" are handlers; false, null and
// undefined leave a property out.
function build(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === false || value === null || value === undefined) continue
    if (name.startsWith('on')) element[name] = value
    else element.setAttribute(name, value === true ? '' : value)
  }
  element.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined && child !== false))
  return element
}

// h makes an element of HTML.
export const h = (name, properties, ...children) => build(document.createElement(name), properties, children)

// s makes an element of SVG.
export const s = (name, properties, ...children) =>
  build(document.createElementNS(svgNames, name), properties, children)

const handlers = ['onclick', 'onchange', 'oninput', 'onsubmit', 'onkeydown']

// show makes the children of an element those given. What stays the same is kept, with its focus and selection.
export function show(parent, ...children) {
  const next = document.createElement('div')
  build(next, null, children)
  morphChildren(parent, next)
}

const keyOf = node => (node.nodeType === Node.ELEMENT_NODE ? node.getAttribute('data-key') : null)

function morphChildren(parent, next) {
  const keyed = new Map()
  for (const child of parent.childNodes) if (keyOf(child)) keyed.set(keyOf(child), child)
  let at = parent.firstChild
  for (const wanted of [...next.childNodes]) {
    const key = keyOf(wanted)
    let old = key ? keyed.get(key) : at
    if (old && !key && (keyOf(old) || !alike(old, wanted))) old = undefined
    if (!old || !alike(old, wanted)) {
      parent.insertBefore(wanted, at)
      continue
    }
    if (old === at) at = at.nextSibling
    else parent.insertBefore(old, at)
    morph(old, wanted)
  }
  while (at) {
    const over = at
    at = at.nextSibling
    over.remove()
  }
}

const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b)

function morph(old, next) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== next.data) old.data = next.data
    return
  }
  for (const { name } of [...old.attributes]) if (!next.hasAttribute(name)) old.removeAttribute(name)
  for (const { name, value } of next.attributes) {
    if (old.getAttribute(name) !== value && !(name === 'open' && old.nodeName === 'DETAILS'))
      old.setAttribute(name, value)
  }
  for (const name of handlers) if (old[name] !== next[name]) old[name] = next[name]
  if (old.nodeName === 'SELECT') morphChildren(old, next)
  if ('value' in old && old.nodeName !== 'BUTTON' && old !== document.activeElement && old.value !== next.value) {
    old.value = next.value
  }
  if (old.nodeName !== 'SELECT') morphChildren(old, next)
}

// table makes a table of rows. A column is its title, what a cell has, and a class; key names a row.
export function table(caption, columns, rows, key, attributes) {
  return h(
    'div',
    { class: 'scroll', 'data-key': caption },
    h(
      'table',
      attributes,
      h('caption', { class: 'unseen' }, caption),
      h(
        'thead',
        null,
        h(
          'tr',
          null,
          columns.map(c => h('th', { scope: 'col', class: c.class, title: c.hint }, c.title))
        )
      ),
      h(
        'tbody',
        null,
        rows.map(row =>
          h(
            'tr',
            { 'data-key': key(row) },
            columns.map((c, i) => h(i === 0 ? 'th' : 'td', { scope: i === 0 && 'row', class: c.class }, c.cell(row)))
          )
        )
      )
    )
  )
}

// empty says that there is nothing, and what to do about it.
export const empty = (what, advice) =>
  h('div', { class: 'empty', 'data-key': what }, h('p', { class: 'what' }, what), h('p', null, advice))
