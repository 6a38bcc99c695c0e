// Servers of replications: their jobs, their errors, whether they ask for fewer requests; and holds.
import { h, table, empty } from './dom.js'
import { ask, get, query } from './api.js'
import { ago, compact, count, duration, plural } from './format.js'
import { to } from './route.js'
import { confirm } from './dialog.js'
import { statsOf } from './stats.js'

async function read({ parameters }, signal) {
  const [answer, holds, stats] = await Promise.all([
    get('_scheduler/servers' + query({ limit: 50, cursor: parameters.cursor }), signal),
    get('_scheduler/holds', signal),
    statsOf()
  ])
  return { ...answer, holds: holds.holds, outcomes: outcomesOf(stats) }
}

// outcomesOf has the requests of this node by host and outcome.
function outcomesOf(stats) {
  const by = Object.create(null) // a host may be called __proto__
  for (const [outcome, servers] of Object.entries(stats.couchrelay?.endpoint_requests_total ?? {})) {
    for (const [server, { value }] of Object.entries(servers)) (by[server] ??= {})[outcome] = value
  }
  return by
}

// requestsTo are those to a server, whose URL may have left out the port.
const requestsTo = (server, outcomes) => outcomes[server] ?? outcomes[server.replace(/:(80|443)$/, '')]

async function hold(page, what) {
  const values = await confirm({
    title: 'New hold',
    act: 'Hold',
    text: [
      'All jobs of a replicator database, or all jobs that touch a server, stop with a checkpoint, and none is started until the hold is lifted. Nothing is lost.'
    ],
    fields: [
      { name: 'server', title: 'Server', hint: 'db.example.com, or with a port', value: what },
      { name: 'database', title: 'or replicator database', hint: 'team/_replicator' },
      { name: 'reason', title: 'Reason (optional)' }
    ]
  })
  if (values === null) return
  const body = Object.fromEntries(Object.entries(values).filter(([, value]) => value))
  try {
    const done = await ask('POST', '_scheduler/holds', body)
    page.tell(done.changed ? `${done.id} is held.` : `${done.id} was held already.`)
  } catch (e) {
    page.tell(`No hold was made: ${e.message}`, 'bad')
  }
  page.refresh()
}

async function lift(page, id) {
  try {
    await ask('DELETE', `_scheduler/holds/${encodeURIComponent(id)}`)
    page.tell(`${id} is lifted: its jobs come back over a minute.`)
  } catch (e) {
    page.tell(`The hold was not lifted: ${e.message}`, 'bad')
  }
  page.refresh()
}

function holdsOf(holds, page) {
  const columns = [
    { title: 'Hold', class: 'text', cell: x => x.id },
    {
      title: 'Jobs kept',
      class: 'num right',
      hint: 'stopped or kept from starting so far',
      cell: x => (x.jobs >= 10000 ? '10,000 or more' : count(x.jobs))
    },
    { title: 'Reason', class: 'text', cell: x => x.reason || '–' },
    { title: 'By', class: 'text', cell: x => x.by ?? '–' },
    { title: 'For', class: 'num', cell: x => ago(x.at) },
    { title: '', cell: x => h('button', { onclick: () => lift(page, x.id), 'aria-label': `Lift ${x.id}` }, 'Lift') }
  ]
  return h(
    'section',
    { class: 'card', 'data-key': 'holds' },
    h(
      'div',
      { class: 'heading' },
      h('h2', null, 'Holds'),
      h('div', { class: 'verbs' }, h('button', { onclick: () => hold(page, ''), 'data-key': 'new' }, 'New hold…'))
    ),
    holds.length > 0
      ? table('Holds', columns, holds, x => x.id)
      : h(
          'p',
          { class: 'dim' },
          'None. A hold keeps all jobs of a server or database from running, as for maintenance.'
        )
  )
}

// limiterOf says how requests are held back, the worst first.
function limiterOf(limiter) {
  if (limiter.length === 0) return '–'
  const worst = limiter.reduce((a, b) => ((b.closed && !a.closed) || b.pause_seconds > a.pause_seconds ? b : a))
  return h(
    'span',
    {
      class: 'warn',
      title: limiter
        .map(l => `${l.method} ${l.url}: ${l.closed ? 'closed, ' : ''}${duration(l.pause_seconds)}`)
        .join('\n')
    },
    worst.closed
      ? `closed, asks again in ${duration(worst.pause_seconds)}`
      : `a pause of ${duration(worst.pause_seconds)} before each request`,
    limiter.length > 1 && ` (${plural(limiter.length, 'endpoint')})`
  )
}

// bad are the outcomes that tell of a server, or of the way to it, and not of one job.
const bad = ['server_error', 'throttled', 'denied', 'network', 'timeout', 'tls', 'malformed']

function outcomes(found) {
  if (!found) return '–'
  const order = Object.entries(found).sort((a, b) => b[1] - a[1])
  return order.map(([name, n], i) => [
    i > 0 && h('span', { class: 'dim' }, ' · '),
    h('span', { class: bad.includes(name) ? 'warn' : null }, compact(n), ` ${name}`)
  ])
}

function columns(data, page) {
  return [
    { title: 'Server', class: 'text', cell: v => h('a', { href: to('jobs', { server: v.server }) }, v.server) },
    { title: 'Jobs', class: 'num right', hint: 'that are not over', cell: v => compact(v.jobs) },
    { title: 'Over', class: 'num right', hint: 'documents that are completed or failed', cell: v => compact(v.over) },
    {
      title: 'Crashing',
      class: 'num right',
      cell: v =>
        v.crashing
          ? h(
              'a',
              { class: 'warn', href: to('jobs', { server: v.server, state: 'crashing' }) },
              count(v.crashing),
              v.crashing_bounded && '+'
            )
          : '0'
    },
    {
      title: 'For example',
      class: 'text wide',
      cell: v =>
        v.example
          ? h('a', { href: to('job', {}, v.example.job), class: 'error', title: v.example.reason }, v.example.error)
          : ''
    },
    {
      title: `Requests of ${data.node}`,
      class: 'num',
      hint: 'since its start, by outcome',
      cell: v => outcomes(requestsTo(v.server, data.outcomes))
    },
    {
      title: `Limiter of ${data.node}`,
      class: 'num',
      hint: 'requests that are held back, since the server answered 429',
      cell: v => limiterOf(v.limiter)
    },
    {
      title: 'Hold',
      class: 'num',
      cell: v =>
        v.holds.length > 0
          ? h(
              'button',
              { onclick: () => lift(page, v.holds[0]), title: v.holds.join(', '), 'aria-label': `Lift ${v.holds[0]}` },
              'Lift'
            )
          : h('button', { onclick: () => hold(page, v.server), 'aria-label': `Hold ${v.server}` }, 'Hold…')
    }
  ]
}

export const servers = {
  title: 'Servers',
  admin: true,
  every: 5000,
  read,
  draw(data, page) {
    const { parameters } = page.place
    return [
      h('h1', { class: 'unseen' }, 'Servers'),
      holdsOf(data.holds, page),
      data.servers.length > 0
        ? table('Servers', columns(data, page), data.servers, v => v.server)
        : empty(data.cursor ? 'None on this page' : 'No servers', 'Sources and targets of jobs come up here.'),
      h(
        'div',
        { class: 'paging', 'data-key': 'paging' },
        parameters.cursor && h('a', { class: 'button', rel: 'prev', href: to('servers') }, 'First page'),
        data.cursor && h('a', { class: 'button', rel: 'next', href: to('servers', { cursor: data.cursor }) }, 'Next →')
      )
    ]
  }
}
