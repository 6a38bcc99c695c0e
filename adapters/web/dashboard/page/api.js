// Requests to the service. Their paths are relative to the page, so that the service may be below any path of a proxy.

const root = new URL('../', document.baseURI)

// Refusal is an answer that is an error, in CouchDB's words.
export class Refusal extends Error {
  constructor(status, body) {
    super(body?.reason ?? `the answer has status ${status}`)
    this.status = status
    this.error = body?.error ?? 'unknown'
  }
}

// Silence is no answer, or one that says that the service cannot give any now.
export class Silence extends Error {}

// longest is how long an answer may take, in milliseconds.
const longest = 20000

// ask sends a request and returns the answer. The signal, if there is one, gives it up.
export async function ask(method, path, body, signal) {
  const late = AbortSignal.timeout(longest)
  const options = {
    method,
    headers: { accept: 'application/json' },
    signal: signal ? AbortSignal.any([signal, late]) : late,
    cache: 'no-store'
  }
  if (body !== undefined) {
    options.headers['content-type'] = 'application/json'
    options.body = JSON.stringify(body)
  }
  let answer, text
  try {
    answer = await fetch(new URL(path, root), options)
    text = await answer.text()
  } catch (e) {
    if (signal?.aborted) throw e
    throw new Silence(late.aborted ? 'no answer in 20 seconds' : 'the node cannot be reached')
  }
  let value
  try {
    value = JSON.parse(text)
  } catch {
    throw new Silence(`something else than couchrelay answers here (status ${answer.status})`)
  }
  if (answer.ok) return value
  if ([502, 503, 504].includes(answer.status)) throw new Silence(value.reason ?? `status ${answer.status}`)
  throw new Refusal(answer.status, value)
}

export const get = (path, signal) => ask('GET', path, undefined, signal)

// answers are those that several views use, by their paths: the last one, and the one that is asked for.
const answers = new Map()

// shared reads a path once for all that ask at a time, and again only when the last answer is older than fresh, in
// milliseconds.
export function shared(path, fresh) {
  const known = answers.get(path) ?? { at: 0 }
  answers.set(path, known)
  if (known.asking) return known.asking
  if (Date.now() - known.at < fresh) return Promise.resolve(known.value)
  known.asking = get(path)
    .then(value => {
      Object.assign(known, { value, at: Date.now() })
      return value
    })
    .finally(() => {
      known.asking = null
    })
  return known.asking
}

// forget drops what was shared: another user may not see it.
export const forget = () => answers.clear()

// query writes parameters of a request, without those that are empty.
export function query(parameters) {
  const list = new URLSearchParams()
  for (const [name, value] of Object.entries(parameters))
    if (value !== undefined && value !== '' && value !== null) list.set(name, value)
  const text = list.toString()
  return text ? '?' + text : ''
}

// jobPath is the path of a job.
export const jobPath = (id, part = '') => `_scheduler/jobs/${encodeURIComponent(id)}${part}`

// session is the user of the page.
export const session = { name: null, roles: [], admin: false, monitor: false, known: false }

// readSession asks who the user is, and reports whether it may use the service at all.
export async function readSession() {
  let context
  try {
    context = (await get('_session')).userCtx
  } catch (e) {
    if (!(e instanceof Refusal) || e.status !== 401) throw e
    context = { name: null, roles: [] }
  }
  session.name = context.name
  session.roles = context.roles
  session.admin = context.roles.includes('_admin')
  session.monitor = session.admin || context.roles.includes('_metrics')
  session.known = session.admin || context.name !== null
  return session.known
}

export const login = (name, password) => ask('POST', '_session', { name, password })
export const logout = () => ask('DELETE', '_session')
