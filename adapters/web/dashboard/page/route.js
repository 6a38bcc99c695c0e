// Where the page is, in the fragment of its address: #/jobs?state=crashing, #/job/ID.

// here reads the fragment: the name of a view, what it is of, and its parameters.
export function here() {
  const [path, rest] = location.hash.replace(/^#\/?/, '').split(/\?(.*)/s)
  const [name, ...of] = path.split('/')
  let id = ''
  try {
    id = decodeURIComponent(of.join('/'))
  } catch {
    /* no id at all */
  }
  return { name, id, parameters: Object.fromEntries(new URLSearchParams(rest ?? '')) }
}

// to writes a fragment.
export function to(name, parameters = {}, id = '') {
  const list = new URLSearchParams()
  for (const [key, value] of Object.entries(parameters)) if (value) list.set(key, value)
  const text = list.toString().replace(/%2C/g, ',')
  return `#/${name}${id ? '/' + encodeURIComponent(id) : ''}${text ? '?' + text : ''}`
}

// go leaves for another place.
export const go = (name, parameters, id) => {
  location.hash = to(name, parameters, id)
}
