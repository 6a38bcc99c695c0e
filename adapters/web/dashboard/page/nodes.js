// Nodes of the fleet.
import { h, table, empty } from './dom.js'
import { ago, count, moment, state } from './format.js'
import { to } from './route.js'
import { bar } from './chart.js'
import { nodesOf } from './stats.js'

function columns(by) {
  return [
    {
      title: 'Node',
      class: 'text',
      cell: n => [
        h('a', { href: to('jobs', { node: n.name }) }, n.name),
        n.name === by && h('span', { class: 'role' }, 'answers here')
      ]
    },
    { title: 'Status', cell: n => state(n.status) },
    {
      title: 'Running',
      class: 'num',
      cell: n => [
        bar(n.running, n.max_jobs, `${n.running} of ${n.max_jobs} slots`),
        ` ${count(n.running)} of ${count(n.max_jobs)}`
      ]
    },
    { title: 'Last seen', class: 'num', hint: 'by its own clock', cell: n => ago(n.last_seen, ' ago') },
    { title: 'Up since', class: 'num', cell: n => moment(n.start_time) },
    { title: 'Roles', class: 'text', cell: n => n.roles.join(', ') },
    { title: 'Version', class: 'text', cell: n => n.version },
    {
      title: 'Given up',
      class: 'text',
      cell: n =>
        n.given_up
          ? ['by ', n.given_up_by, ', ', ago(n.given_up, ' ago')]
          : n.status === 'lost'
            ? 'its jobs are being given to others'
            : ''
    }
  ]
}

export const nodes = {
  title: 'Nodes',
  admin: true,
  every: 2000,
  read: nodesOf,
  draw(data) {
    return [
      h('h1', { class: 'unseen' }, 'Nodes'),
      data.nodes.length > 0
        ? table('Nodes', columns(data.answered_by), data.nodes, n => `${n.name} ${n.start_time}`)
        : empty('No nodes', 'None has joined yet.')
    ]
  }
}
