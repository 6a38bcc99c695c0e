// How it goes, all in all.
import { h, table, empty } from './dom.js'
import { get, session } from './api.js'
import { ago, compact, count, duration, marked, plural, state } from './format.js'
import { to } from './route.js'
import { bar, spark } from './chart.js'
import { latest, nodesOf, rates, stat, statsOf } from './stats.js'

async function read(place, signal) {
  const [stats, errors, nodes] = await Promise.all([
    statsOf(),
    session.admin ? get('_scheduler/errors?limit=200', signal) : null,
    session.admin ? nodesOf() : null
  ])
  return { stats, errors, nodes }
}

const states = ['running', 'pending', 'crashing', 'paused', 'completed', 'failed']
const meant = {
  running: 'have a slot',
  pending: 'wait for a slot, or are held',
  crashing: 'wait for another attempt',
  paused: 'until resumed',
  completed: 'documents whose job is done',
  failed: 'documents whose job is over'
}

function tiles(stats) {
  const known = stat(stats, 'couchrelay/jobs/running') !== undefined
  return h(
    'section',
    { class: 'tiles', 'aria-label': 'Jobs by state', 'data-key': 'tiles' },
    states.map(name =>
      h(
        'a',
        { class: `tile ${name}`, href: to('jobs', { state: name }), 'data-key': name },
        state(name),
        h('span', { class: 'big' }, known ? compact(stat(stats, `couchrelay/jobs/${name}`)) : '–'),
        h('span', { class: 'dim' }, meant[name])
      )
    )
  )
}

function slots(stats) {
  const [all, used] = [stat(stats, 'couchrelay/slots'), stat(stats, 'couchrelay/slots_used')]
  const standing = name => stat(stats, `couchrelay/queue_jobs/${name}`)
  if (all === undefined)
    return h(
      'section',
      { class: 'card', 'data-key': 'slots' },
      h('h2', null, 'Slots'),
      h('p', { class: 'warn' }, 'The store does not answer: what it knows is missing here.')
    )
  return h(
    'section',
    { class: 'card', 'data-key': 'slots' },
    h('h2', null, 'Slots of all nodes'),
    h(
      'p',
      { class: 'meter' },
      h('span', { class: 'big' }, count(used)),
      ` of ${count(all)} in use `,
      bar(used, all, `${count(used)} of ${count(all)} slots are in use`)
    ),
    h(
      'dl',
      null,
      h('dt', null, 'Ready for a slot'),
      h('dd', null, count(standing('ready'))),
      h('dt', null, 'Wait after a crash'),
      h('dd', null, count(standing('waiting'))),
      h('dt', null, 'Paused, held or doubled'),
      h('dd', null, count(standing('parked'))),
      h('dt', null, 'Holds in force'),
      h('dd', null, h('a', { href: to('servers') }, count(stat(stats, 'couchrelay/holds'))))
    )
  )
}

const shown = [
  ['written', 'Documents written', n => `${compactText(n)} /s`, 1],
  ['requests', 'Requests to servers', n => `${compactText(n)} /s`, 1],
  ['starts', 'Runs started', n => `${compactText(n)} /min`, 60],
  ['crashes', 'Runs crashed', n => `${compactText(n)} /min`, 60],
  ['stalled', 'Runs stalled', n => `${compactText(n)} /min`, 60]
]
const compactText = n => (n >= 100 ? count(Math.round(n)) : String(+n.toPrecision(2)))

function thisNode(stats, nodes) {
  const uptime = stat(stats, 'couchrelay/uptime_seconds')
  return h(
    'section',
    { class: 'card', 'data-key': 'node' },
    h(
      'h2',
      null,
      nodes ? `Node ${nodes.answered_by}` : 'This node',
      h('span', { class: 'dim' }, uptime !== undefined && ` · up for ${duration(Math.round(uptime))}`)
    ),
    h(
      'table',
      { class: 'rates' },
      h('caption', { class: 'unseen' }, 'What this node does'),
      h(
        'thead',
        null,
        h(
          'tr',
          null,
          h('th', { scope: 'col' }, ''),
          h('th', { scope: 'col', class: 'right' }, 'now'),
          h('th', { scope: 'col' }, 'while this page is open'),
          h('th', { scope: 'col', class: 'right' }, 'since its start')
        )
      ),
      h(
        'tbody',
        null,
        shown.map(([name, title, write, times]) => {
          const points = rates(name).map(([t, v]) => [t, v * times])
          return h(
            'tr',
            { 'data-key': name },
            h('th', { scope: 'row' }, title),
            h('td', { class: 'num right' }, points.length > 0 ? write(points.at(-1)[1]) : '–'),
            h('td', null, spark(title, points, 240)),
            h('td', { class: 'num right' }, compact(latest()?.[name]))
          )
        })
      )
    )
  )
}

const listOf = (e, name) => to('jobs', { state: name, error: e.error })
const errorColumns = [
  {
    title: 'Error',
    class: 'text',
    cell: e => h('a', { href: listOf(e, e.crashing ? 'crashing' : 'failed') }, e.error)
  },
  { title: 'Class', cell: e => e.class ?? '–' },
  {
    title: 'Crashing',
    class: 'num right',
    cell: e => (e.crashing ? h('a', { href: listOf(e, 'crashing') }, compact(e.crashing)) : '0')
  },
  {
    title: 'Failed',
    class: 'num right',
    cell: e => (e.failed ? h('a', { href: listOf(e, 'failed') }, compact(e.failed)) : '0')
  },
  { title: 'What to do', class: 'text', cell: e => (e.advice ? marked(e.advice) : 'see the reason of one of the jobs') }
]

function errorsOf(errors) {
  if (!errors) return null
  const list = [...errors.errors].sort((a, b) => b.crashing + b.failed - a.crashing - a.failed)
  return h(
    'section',
    { class: 'card broad', 'data-key': 'errors' },
    h('h2', null, 'What is wrong'),
    list.length > 0
      ? table('Errors of jobs', errorColumns, list, e => e.error)
      : h('p', { class: 'good' }, '✓ No job is crashing, and no document has failed.')
  )
}

function fleetOf(nodes) {
  if (!nodes) return h('p', { class: 'dim', 'data-key': 'less' }, 'Errors and nodes are shown to admins of the server.')
  const lost = nodes.nodes.filter(n => n.status === 'lost')
  const live = nodes.nodes.filter(n => n.status !== 'lost')
  return h(
    'section',
    { class: 'card broad', 'data-key': 'nodes' },
    h('h2', null, 'Nodes'),
    lost.length > 0 &&
      h(
        'p',
        { class: 'alarm' },
        state('lost'),
        ' ',
        lost.map((n, i) => [i > 0 && ', ', `${n.name}, last seen `, ago(n.last_seen, ' ago')]),
        ': other nodes take over its jobs.'
      ),
    live.length > 0
      ? h(
          'ul',
          { class: 'fleet' },
          live.map(n =>
            h(
              'li',
              { 'data-key': n.name },
              h('a', { href: to('nodes') }, n.name),
              ' ',
              state(n.status),
              ' ',
              bar(n.running, n.max_jobs, `${n.running} of ${n.max_jobs} slots`),
              h('span', { class: 'num' }, ` ${count(n.running)} of ${plural(n.max_jobs, 'slot')}`)
            )
          )
        )
      : empty('No node is alive', 'Start one: jobs wait until then.')
  )
}

export const overview = {
  title: 'Overview',
  admin: true,
  monitor: true,
  every: 4000,
  read,
  draw: ({ stats, errors, nodes }) => [
    h('h1', { class: 'unseen' }, 'Overview'),
    tiles(stats),
    h(
      'div',
      { class: 'cards', 'data-key': 'cards' },
      slots(stats),
      thisNode(stats, nodes),
      errorsOf(errors),
      fleetOf(nodes)
    )
  ]
}
