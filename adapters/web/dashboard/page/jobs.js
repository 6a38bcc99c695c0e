// The list of jobs: those that are not over, or the documents in any state when completed or failed ones are asked for.
import { h, table, empty } from './dom.js'
import { get, query, session, shared, Refusal } from './api.js'
import { ago, compact, count, plural, state } from './format.js'
import { go, to } from './route.js'
import { statsOf, stat } from './stats.js'

const states = ['running', 'pending', 'crashing', 'paused', 'completed', 'failed']
const over = ['completed', 'failed']
const filters = [
  { name: 'key', title: 'Id', hint: 'of a job or replication; with a database, of a document' },
  { name: 'database', title: 'Database', hint: '_replicator' },
  { name: 'server', title: 'Server', hint: 'db.example.com or host:port' },
  { name: 'user', title: 'User', hint: 'name' },
  { name: 'error', title: 'Error', hint: 'db_not_found', list: 'known-errors' },
  { name: 'node', title: 'Node', hint: 'name', list: 'known-nodes' }
]
const sizes = [25, 50, 100, 200]

// cursors are those of the pages before the present one, by the address of the list.
const trail = { list: '', cursors: [] }

const chosen = parameters => (parameters.state ?? '').split(',').filter(Boolean)

// ofDocuments reports whether the list is one of documents: only that has those that are over.
const ofDocuments = p => chosen(p).some(s => over.includes(s)) || Boolean(p.key && p.database)

// listPath is the request for a page of a list.
function listPath(p) {
  const documents = ofDocuments(p)
  return (
    `_scheduler/${documents ? 'docs' : 'jobs'}` +
    query({
      states: chosen(p).join(','),
      database: p.database || (documents ? '*' : ''),
      server: p.server,
      user: p.user,
      error: p.error,
      node: p.node,
      key: p.key && JSON.stringify(p.key),
      cursor: p.cursor,
      limit: p.limit || 50
    })
  )
}

// suggestions are names of errors and nodes.
const suggestions = { errors: [], nodes: [] }

async function suggest() {
  if (!session.admin) return
  const [errors, nodes] = await Promise.all([shared('_scheduler/errors', 30000), shared('_scheduler/nodes', 30000)])
  suggestions.errors = errors.errors.map(e => e.error)
  suggestions.nodes = nodes.nodes.map(n => n.name)
}

async function read({ parameters }, signal) {
  const [list, stats] = await Promise.all([
    get(listPath(parameters), signal).catch(e => {
      // A database that there is not, a name that makes no sense: the filter stays, to be corrected.
      if (e instanceof Refusal && [400, 403, 404].includes(e.status)) return { failure: e.message, rows: [] }
      throw e
    }),
    session.monitor ? statsOf() : null,
    suggest()
  ])
  return { ...list, rows: list.jobs ?? list.docs ?? [], stats }
}

// change goes to the list with other filters, from its first page.
const change = (parameters, changes) => go('jobs', { ...parameters, cursor: '', ...changes })

function stateFilter(p, stats) {
  const on = chosen(p)
  const chip = (name, label, pressed, next, n) =>
    h(
      'button',
      {
        'data-key': name,
        class: 'chip',
        'aria-pressed': String(pressed),
        onclick: () => change(p, { state: next.join(',') })
      },
      label,
      n !== undefined && h('span', { class: 'n' }, compact(n))
    )
  return h(
    'div',
    { class: 'chips', role: 'group', 'aria-label': 'States' },
    chip('all', 'not over', on.length === 0, [], stats && stat(stats, 'couch_replicator/jobs/total')),
    states.map(name =>
      chip(
        name,
        state(name),
        on.includes(name),
        on.includes(name) ? on.filter(s => s !== name) : [...on, name],
        stats ? stat(stats, `couchrelay/jobs/${name}`) : undefined
      )
    )
  )
}

function fieldFilters(p) {
  const submit = event => {
    event.preventDefault()
    const values = Object.fromEntries(filters.map(f => [f.name, event.target.elements[f.name].value.trim()]))
    change(p, values)
  }
  const any = filters.some(f => p[f.name])
  return h(
    'form',
    { class: 'filters', role: 'search', onsubmit: submit, 'data-key': 'filters' },
    filters.map((f, i) =>
      h(
        'label',
        { class: p[f.name] ? 'set' : null },
        f.title,
        h('input', {
          name: f.name,
          value: p[f.name] ?? '',
          placeholder: f.hint,
          title: f.hint,
          list: f.list,
          'data-filter': i === 0,
          spellcheck: 'false',
          autocomplete: 'off',
          onchange: event => event.target.form.requestSubmit()
        })
      )
    ),
    h(
      'datalist',
      { id: 'known-errors' },
      suggestions.errors.map(e => h('option', { value: e }))
    ),
    h(
      'datalist',
      { id: 'known-nodes' },
      suggestions.nodes.map(e => h('option', { value: e }))
    ),
    h('button', { class: 'unseen' }, 'Apply'),
    (any || p.state) && h('a', { href: to('jobs'), class: 'button', 'data-key': 'clear' }, 'Clear')
  )
}

// short is a URL without what all of them have.
const short = url => (url ?? '').replace(/^http:\/\//, '').replace(/\/$/, '')

export const nameOf = j => j.doc_id ?? `request ${(j.id ?? j.job).slice(0, 12)}…`

function progress(j) {
  const n = j.info && !j.info.error ? j.info : null
  if (!n) return '–'
  return [
    compact(n.docs_written),
    n.changes_pending > 0 && h('span', { class: 'dim' }, ' · ', compact(n.changes_pending), ' to go'),
    j.refused > 0 && h('span', { class: 'warn' }, ' · ', compact(j.refused), ' refused')
  ]
}

const pausedBy = ({ by, reason }) => `by ${by ?? 'an unknown user'}${reason ? ': ' + reason : ''}`

// remark is what there is to know beside the state.
function remark(j) {
  if (j.info?.error) return h('span', { class: 'error', title: j.info.error }, j.info.error)
  if (j.pause && !j.pause.at) return 'by its document'
  if (j.pause) return h('span', { title: j.pause.reason }, pausedBy(j.pause))
  if (j.held_by) return `held by ${j.held_by}`
  if (j.waits_for) return 'waits for another job with the same replication'
  if (j.reset) return 'starts over'
  return null
}

const columns = [
  { title: 'Job', class: 'name', cell: j => h('a', { href: to('job', {}, j.job), title: j.job }, nameOf(j)) },
  { title: 'State', cell: j => state(j.state) },
  { title: 'for', class: 'num', hint: 'since when', cell: j => ago(j.history?.[0]?.timestamp ?? j.last_updated) },
  { title: 'Database', class: 'text', cell: j => j.database ?? h('span', { class: 'dim' }, '_replicate') },
  {
    title: 'Source → target',
    class: 'text wide',
    cell: j =>
      h(
        'span',
        { title: `${j.source}\n→ ${j.target}` },
        short(j.source),
        h('span', { class: 'dim' }, ' → '),
        short(j.target)
      )
  },
  { title: 'Written', class: 'num', hint: 'documents written to the target, and changes to come', cell: progress },
  { title: 'Node', class: 'text', cell: j => (j.state === 'running' && j.node) || '–' },
  { title: 'Remark', class: 'text wide', cell: remark }
]

function paging(data, p) {
  const list = listPath({ ...p, cursor: '' })
  if (trail.list !== list) Object.assign(trail, { list, cursors: [] })
  const at = trail.cursors.indexOf(p.cursor ?? '')
  if (at >= 0) trail.cursors.length = at
  const previous = trail.cursors.at(-1)
  const size = Number(p.limit || 50)
  const first = (p.cursor ? trail.cursors.length * size : 0) + 1
  const known = !p.cursor || trail.cursors.length > 0
  const range =
    data.rows.length === 0
      ? 'no rows'
      : known
        ? `${count(first)}–${count(first + data.rows.length - 1)}`
        : plural(data.rows.length, 'row')
  return h(
    'div',
    { class: 'paging' },
    h(
      'span',
      { class: 'range' },
      range,
      data.total_rows !== null && data.total_rows !== undefined && ` of ${count(data.total_rows)}`
    ),
    p.cursor &&
      h(
        'a',
        { class: 'button', rel: 'prev', 'data-key': 'prev', href: to('jobs', { ...p, cursor: previous ?? '' }) },
        previous === undefined ? 'First page' : '← Previous'
      ),
    data.cursor &&
      h(
        'a',
        {
          class: 'button',
          rel: 'next',
          'data-key': 'next',
          onclick: () => trail.cursors.push(p.cursor ?? ''),
          href: to('jobs', { ...p, cursor: data.cursor })
        },
        data.rows.length < size ? 'Search on →' : 'Next →'
      ),
    h(
      'label',
      { class: 'size' },
      'rows',
      h(
        'select',
        { onchange: event => change(p, { limit: event.target.value === '50' ? '' : event.target.value }) },
        sizes.map(n => h('option', { value: n, selected: n === size }, n))
      )
    )
  )
}

function nothing(data, p) {
  if (data.failure)
    return h(
      'div',
      { class: 'empty', role: 'alert', 'data-key': 'failure' },
      h('p', { class: 'what' }, data.failure),
      h('p', null, 'Correct the filter, or ', h('a', { href: to('jobs') }, 'clear it'), '.')
    )
  if (data.cursor)
    return empty(
      'None so far',
      'The search goes on with the button below: several filters together are searched part by part.'
    )
  if (chosen(p).length > 0 || filters.some(f => p[f.name]))
    return empty('No job matches', ['Take a filter away, or ', h('a', { href: to('jobs') }, 'clear all of them'), '.'])
  return empty(
    'No jobs',
    session.admin
      ? 'Put a document into _replicator, or POST to /_replicate: its job comes up here.'
      : 'You see the jobs of your own requests to /_replicate, and of databases whose member you are.'
  )
}

export const jobs = {
  title: 'Jobs',
  every: 3000,
  read,
  draw(data, { place: { parameters: p } }) {
    return [
      h('h1', { class: 'unseen' }, 'Jobs'),
      h('div', { class: 'bar', 'data-key': 'bar' }, stateFilter(p, data.stats), fieldFilters(p)),
      data.rows.length > 0 ? table('Jobs', columns, data.rows, j => j.job, { class: 'jobs' }) : nothing(data, p),
      paging(data, p)
    ]
  }
}
