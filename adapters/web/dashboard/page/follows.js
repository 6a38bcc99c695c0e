// Databases of CouchDBs that are followed.
import { h, table, empty } from './dom.js'
import { get } from './api.js'
import { compact, count, moment, state } from './format.js'
import { to } from './route.js'

const standing = f =>
  f.error ? state('error') : f.reconciling ? 'reads all again' : f.node ? state('running') : state('waiting')

const columns = [
  { title: 'Mirror', class: 'text', cell: f => h('a', { href: to('jobs', { database: f.name }) }, f.name) },
  { title: 'State', cell: standing },
  { title: 'Database', class: 'text', cell: f => f.url },
  { title: 'Node', class: 'text', cell: f => f.node ?? '–' },
  { title: 'Changes to come', class: 'num right', cell: f => compact(f.changes_pending) },
  {
    title: 'States to write',
    class: 'num right',
    cell: f => (f.states_pending >= 1000 ? '1,000 or more' : count(f.states_pending))
  },
  { title: 'Trusted', cell: f => (f.trusted ? 'yes' : 'no') },
  {
    title: 'Error',
    class: 'text',
    cell: f =>
      f.error
        ? [
            h('span', { class: 'error' }, f.error),
            ` ${f.reason ?? ''} `,
            f.next_try && ['· again ', moment(f.next_try)]
          ]
        : ''
  }
]

export const follows = {
  title: 'Follows',
  admin: true,
  every: 4000,
  read: (place, signal) => get('_scheduler/follow', signal),
  draw: data => [
    h('h1', { class: 'unseen' }, 'Followed databases'),
    data.follow.length > 0
      ? table('Followed databases', columns, data.follow, f => f.name)
      : empty('No database is followed', [
          'A section ',
          h('code', null, '[follow NAME]'),
          ' of the configuration names databases of a CouchDB whose replication documents couchrelay runs.'
        ])
  ]
}
