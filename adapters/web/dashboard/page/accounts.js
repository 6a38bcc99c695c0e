// Accounts: what they are entitled to by their shares, and what their jobs used.
import { h, table, empty } from './dom.js'
import { get, query } from './api.js'
import { compact, count, duration, exactly } from './format.js'
import { to } from './route.js'
import { bar, lines, spark } from './chart.js'

const size = 50

// used is what was read so far, by account: seconds of slots by the beginning of the interval. The service forgets it
// after a while, the page when it is closed.
const used = new Map()
const longest = 1500

async function read({ parameters }, signal) {
  const answer = await get('_scheduler/accounts' + query({ limit: size, cursor: parameters.cursor }), signal)
  const whole = Date.now() - answer.interval_seconds * 1250 // younger intervals are not over, or not all nodes have told yet
  for (const a of answer.accounts) {
    const of = used.get(a.name) ?? new Map()
    used.set(a.name, of)
    for (const u of a.used) if (Date.parse(u.time) <= whole) of.set(Date.parse(u.time), u.seconds)
    while (of.size > longest) of.delete(of.keys().next().value)
  }
  return { ...answer, whole }
}

// slotsOf are the slots that an account had in the mean of each interval, from the first one that is known of any.
function slotsOf(name, { interval_seconds: interval, whole }, from) {
  const of = used.get(name) ?? new Map()
  const points = []
  const length = Math.round(interval * 1000)
  for (let t = from; t <= whole; t += length) points.push([t + length, (of.get(t) ?? 0) / interval])
  return points.slice(-longest)
}

function entitled(accounts) {
  const wanting = accounts.filter(a => a.jobs > 0)
  const shares = wanting.reduce((n, a) => n + a.shares, 0)
  const usage = accounts.reduce((n, a) => n + (a.usage_seconds ?? 0), 0)
  return accounts.map(a => ({
    ...a,
    due: a.jobs > 0 && shares > 0 ? a.shares / shares : 0,
    has: usage > 0 ? (a.usage_seconds ?? 0) / usage : null
  }))
}

const percent = n => (n === null ? '–' : `${+(n * 100).toFixed(n < 0.1 ? 1 : 0)} %`)
const user = 'user:'

// jobsOf leads to the jobs of an account, as far as a filter can say that.
const jobsOf = name =>
  name.startsWith(user)
    ? name.length > user.length
      ? to('jobs', { user: name.slice(user.length) })
      : to('jobs')
    : to('jobs', { database: name })

function columns(answer, from) {
  return [
    {
      title: 'Account',
      class: 'text',
      cell: a => h('a', { href: jobsOf(a.name) }, a.name === user ? 'user: (requests without a login)' : a.name)
    },
    { title: 'Jobs', class: 'num right', hint: 'that are not over, paused or held', cell: a => compact(a.jobs) },
    { title: 'Shares', class: 'num right', cell: a => count(a.shares) },
    {
      title: 'Entitled to',
      class: 'num',
      hint: 'its shares among those of all accounts of this page that have jobs',
      cell: a => [bar(a.due, 1, `entitled to ${percent(a.due)}`), ' ', percent(a.due)]
    },
    {
      title: 'Has used',
      class: 'num',
      hint: 'its part of the recent usage of all accounts of this page',
      cell: a => (a.has === null ? '–' : [bar(a.has, 1, `used ${percent(a.has)}`), ' ', percent(a.has)])
    },
    {
      title: 'Usage',
      class: 'num right',
      hint: 'running time of its jobs; the longer ago, the less it counts',
      cell: a => (a.usage_seconds === null ? '–' : exactly(Math.round(a.usage_seconds)))
    },
    { title: 'Slots over time', cell: a => spark(`Slots of ${a.name}`, slotsOf(a.name, answer, from)) }
  ]
}

export const accounts = {
  title: 'Accounts',
  admin: true,
  every: 5000,
  read,
  draw(answer, { place: { parameters } }) {
    const rows = entitled(answer.accounts).sort((a, b) => b.has - a.has || b.shares - a.shares)
    const times = answer.accounts.flatMap(a => [...(used.get(a.name)?.keys() ?? [])])
    const from = times.length > 0 ? Math.min(...times) : answer.whole
    const most = rows.filter(a => used.get(a.name)?.size > 0).slice(0, 6)
    const width = Math.max(320, document.getElementById('main').clientWidth - 76)
    if (rows.length === 0)
      return [
        empty('No accounts', 'Each replicator database with jobs is one, and each user with requests to _replicate.')
      ]
    return [
      h('h1', { class: 'unseen' }, 'Accounts'),
      h(
        'section',
        { class: 'card', 'data-key': 'chart' },
        h(
          'h2',
          null,
          'Slots used',
          h(
            'span',
            { class: 'dim' },
            ` · mean of each ${duration(answer.interval_seconds)}, the accounts that used most`
          )
        ),
        answer.accounts.some(a => a.usage_seconds !== null)
          ? lines(
              'Slots used by account',
              most.map(a => ({ name: a.name, points: slotsOf(a.name, answer, from) })),
              { width, unit: ' slots' }
            )
          : h('p', { class: 'dim' }, `The policy ${answer.policy} does not go by usage, so none is stored.`)
      ),
      h(
        'p',
        { class: 'dim', 'data-key': 'policy' },
        `Policy ${answer.policy}. Shares count while jobs wait; on an idle machine every job runs. `,
        `They are set in [replicator.shares].`
      ),
      table('Accounts', columns(answer, from), rows, a => a.name),
      h(
        'div',
        { class: 'paging', 'data-key': 'paging' },
        parameters.cursor && h('a', { class: 'button', rel: 'prev', href: to('accounts') }, 'First page'),
        answer.cursor &&
          h('a', { class: 'button', rel: 'next', href: to('accounts', { cursor: answer.cursor }) }, 'Next →')
      )
    ]
  }
}
