// One job: why it runs or does not, its history, its numbers, what its target refused, and what can be done to it.
import { h, table } from './dom.js'
import { ask, get, jobPath, query, Refusal } from './api.js'
import { ago, compact, count, exactly, marked, moment, plural, sentence, state } from './format.js'
import { go, to } from './route.js'
import { confirm } from './dialog.js'
import { after, timeline } from './timeline.js'
import { nameOf } from './jobs.js'

const over = j => j.state === 'completed' || j.state === 'failed'

// allowed reads what only those may who steer the job.
const allowed = promise =>
  promise.catch(e => {
    if (e instanceof Refusal && (e.status === 403 || e.status === 401)) return { refused: e.message }
    throw e
  })

async function read({ id, parameters }, signal) {
  const job = await get(jobPath(id), signal)
  const [why, failures] = await Promise.all([
    allowed(get(jobPath(id, '/explain'), signal)),
    job.refused > 0
      ? allowed(get(jobPath(id, '/failures') + query({ limit: 50, cursor: parameters.cursor }), signal))
      : null
  ])
  return { job, why, failures, id }
}

// orders are the verbs, in the order of their buttons. Those that lose something ask first.
const orders = [
  {
    name: 'pause',
    title: 'Pause',
    fits: j => !over(j) && j.state !== 'paused',
    why: true,
    text: ['The job stops with a checkpoint, and stays so until it is resumed.']
  },
  { name: 'resume', title: 'Resume', fits: j => j.state === 'paused' && j.pause?.at },
  { name: 'retry', title: 'Retry now', fits: j => ['crashing', 'failed'].includes(j.state) || j.refused > 0 },
  {
    name: 'reset',
    title: 'Reset…',
    fits: j => !over(j),
    why: true,
    danger: true,
    text: [
      'The checkpoints on both sides are discarded, and the job starts over: it compares both databases from the beginning. Documents that are copied already are not copied again.'
    ]
  },
  {
    name: 'cancel',
    title: 'Cancel…',
    fits: j => !over(j),
    danger: true,
    why: false,
    text: j =>
      j.doc_id === null
        ? ['The job of this request is removed, and its history with it.']
        : [
            `Document ${j.doc_id} of ${j.database} is deleted, the job is removed, and its history with it. This cannot be undone here.`
          ]
  }
]

async function carryOut(order, job, page) {
  let body = {}
  if (order.text) {
    const values = await confirm({
      title: `${order.title.replace('…', '')} ${nameOf(job)}?`,
      text: typeof order.text === 'function' ? order.text(job) : order.text,
      fields: order.why ? [{ name: 'reason', title: 'Reason, for the history (optional)' }] : [],
      act: `${order.title.replace('…', '')} the job`,
      danger: order.danger
    })
    if (values === null) return
    if (values.reason) body = { reason: values.reason }
  }
  try {
    const done = await ask('POST', jobPath(job.job, '/' + order.name), body)
    page.tell(
      done.note ??
        (done.changed
          ? `${order.title.replace('…', '')}: the job is ${done.state} now.`
          : `It was so already: the job is ${done.state}.`)
    )
    if (order.name === 'cancel') return go('jobs')
  } catch (e) {
    page.tell(`${order.title.replace('…', '')} was not done: ${e.message}`, 'bad')
  }
  page.refresh()
}

function heading({ job, why }, page) {
  return h(
    'div',
    { class: 'heading', 'data-key': 'heading' },
    h('a', { href: to('jobs'), class: 'up' }, '← Jobs'),
    h('h1', null, nameOf(job)),
    state(job.state),
    why.refused
      ? h('span', { class: 'dim' }, 'Only its owner and admins steer this job.')
      : h(
          'div',
          { class: 'verbs', role: 'group', 'aria-label': 'Orders' },
          orders.map(o =>
            h(
              'button',
              {
                'data-key': o.name,
                class: o.danger ? 'danger' : null,
                disabled: !o.fits(job),
                onclick: () => carryOut(o, job, page)
              },
              o.title
            )
          )
        )
  )
}

const fact = (title, value) =>
  value === null || value === undefined || value === false || value === ''
    ? null
    : [h('dt', null, title), h('dd', null, value)]

function facts({ job, why }) {
  const account = why.account
  return h(
    'section',
    { class: 'card', 'data-key': 'facts' },
    h('h2', null, 'Job'),
    h(
      'dl',
      null,
      fact('Source', job.source),
      fact('Target', job.target),
      fact('Database', job.database ?? 'none: a request to _replicate'),
      fact('Document', job.doc_id),
      fact('User', job.user),
      fact('Made', [moment(job.start_time), ' (', ago(job.start_time, ' ago'), ')']),
      fact('Node', job.state === 'running' && job.node),
      fact(
        'Account',
        account && [
          account.name,
          h(
            'span',
            { class: 'dim' },
            ` · ${count(account.shares)} shares, ${plural(account.jobs, 'job')}, policy ${account.policy}`
          )
        ]
      ),
      fact('Weight', count(job.weight)),
      fact('Unknown fields', job.unknown_fields?.join(', ')),
      fact('Replication id', h('code', null, job.id ?? 'not known yet')),
      fact('Job id', h('code', null, job.job))
    )
  )
}

function reasons({ why }) {
  if (why.refused)
    return h(
      'section',
      { class: 'card why', 'data-key': 'why' },
      h('h2', null, 'Why'),
      h('p', { class: 'dim' }, why.refused)
    )
  const node = why.node
  return h(
    'section',
    { class: 'card why', 'data-key': 'why' },
    h('h2', null, 'Why'),
    h('p', { class: 'sentence' }, sentence(why.sentence)),
    h(
      'dl',
      null,
      fact(
        'Causes',
        h(
          'span',
          { class: 'tags' },
          why.why.map(w => h('span', { class: 'tag' }, w))
        )
      ),
      fact(
        'Error',
        why.error && [
          h('code', null, why.error.error),
          why.error.class && h('span', { class: 'dim' }, ` · class ${why.error.class}`),
          ` · ${plural(why.error.count, 'time')}`
        ]
      ),
      fact('What to do', why.error?.advice && marked(why.error.advice)),
      fact('Runs again', why.due && [moment(why.due)]),
      fact('Place in the queue', why.position && `${count(why.position)}${why.ahead_bounded ? ' or later' : ''}`),
      fact('Wait, about', why.estimated_wait_seconds !== null && exactly(why.estimated_wait_seconds)),
      fact(
        'Slots',
        `${count(why.slots.running)} of ${count(why.slots.max_jobs)} in use on ${plural(why.slots.nodes, 'node')}`
      ),
      fact('Node', node && `${node.name}, ${node.status}${node.stopping ? ', asked to stop the run' : ''}`),
      fact(
        'Holds',
        why.holds.length > 0 &&
          why.holds.map(x =>
            h('div', null, x.id, x.reason && `: ${x.reason}`, ' (', x.by ?? 'unknown', ', ', ago(x.at, ' ago'), ')')
          )
      ),
      fact(
        'Paused',
        why.pause && [why.pause.by ?? '', ' ', why.pause.at && ago(why.pause.at, ' ago'), ' ', why.pause.reason]
      ),
      fact(
        'Waits for',
        why.waits_for &&
          (why.waits_for.job
            ? h('a', { href: to('job', {}, why.waits_for.job) }, why.waits_for.doc_id ?? why.waits_for.job)
            : why.waits_for.id)
      ),
      fact(
        'Checkpoint',
        why.checkpoint.source_seq &&
          h('code', { class: 'cut', title: why.checkpoint.source_seq }, why.checkpoint.source_seq)
      ),
      fact(
        'Not known',
        why.unknown.length > 0 &&
          h(
            'details',
            null,
            h('summary', null, plural(why.unknown.length, 'thing')),
            h(
              'ul',
              null,
              why.unknown.map(u => h('li', null, h('code', null, u.field), `: ${u.reason}`))
            )
          )
      )
    )
  )
}

const numbers = [
  ['docs_written', 'Documents written'],
  ['docs_read', 'Documents read'],
  ['changes_pending', 'Changes to come'],
  ['doc_write_failures', 'Write failures'],
  ['revisions_checked', 'Revisions checked'],
  ['missing_revisions_found', 'Missing revisions found'],
  ['bulk_get_docs', 'Documents by _bulk_get'],
  ['bulk_get_attempts', 'Attempts of _bulk_get']
]

function numbersOf({ job }) {
  const info = job.info
  return h(
    'section',
    { class: 'card', 'data-key': 'numbers' },
    h('h2', null, 'Numbers'),
    info?.error
      ? h('p', { class: 'dim' }, 'They are told again once the job runs.')
      : info
        ? h(
            'dl',
            { class: 'numbers' },
            numbers.map(([name, title]) =>
              fact(title, info[name] === null ? 'the source does not tell' : count(info[name]))
            )
          )
        : h('p', { class: 'dim' }, 'The job has not run yet: there are none.')
  )
}

function events({ job }) {
  const columns = [
    { title: 'When', class: 'num', cell: e => moment(e.timestamp) },
    { title: 'Event', cell: e => state(after[e.type] ?? 'pending', e.type) },
    { title: 'By', class: 'text', cell: e => e.by ?? '' },
    { title: 'Reason', class: 'text reason', cell: e => e.reason ?? '' }
  ]
  return h(
    'section',
    { class: 'card broad', 'data-key': 'history' },
    h('h2', null, 'History'),
    timeline(job.history, job.state),
    job.history.length > 0 &&
      table(
        'History',
        columns,
        job.history.map((e, i) => ({ ...e, key: `${e.timestamp} ${e.type} ${job.history.length - i}` })),
        e => e.key
      )
  )
}

function refusals({ failures, id }, { place: { parameters } }) {
  if (!failures) return null
  const columns = [
    { title: 'Document', class: 'text', cell: d => d.id },
    {
      title: 'Revision',
      class: 'text',
      cell: d => h('code', { title: d.rev }, d.rev.slice(0, 12), d.rev.length > 12 && '…')
    },
    { title: 'Status', class: 'num', cell: d => d.status ?? 'bulk' },
    { title: 'Error', class: 'text', cell: d => d.error },
    { title: 'Reason', class: 'text reason', cell: d => d.reason },
    { title: 'Attempts', class: 'num', cell: d => count(d.attempts) },
    { title: 'First', class: 'num', cell: d => moment(d.first) },
    { title: 'Last', class: 'num', cell: d => moment(d.last) }
  ]
  return h(
    'section',
    { class: 'card broad', 'data-key': 'refusals' },
    h('h2', null, 'Refused documents'),
    failures.refused
      ? h('p', { class: 'dim' }, failures.refused)
      : [
          table('Refused documents', columns, failures.failures, d => `${d.id} ${d.rev}`),
          h(
            'div',
            { class: 'paging' },
            h(
              'span',
              { class: 'range' },
              compact(failures.total_rows),
              ' refused, ',
              compact(failures.stored),
              ' listed'
            ),
            parameters.cursor && h('a', { class: 'button', rel: 'prev', href: to('job', {}, id) }, 'First page'),
            failures.cursor &&
              h('a', { class: 'button', rel: 'next', href: to('job', { cursor: failures.cursor }, id) }, 'Next →')
          )
        ]
  )
}

export const job = {
  title: 'Job',
  named: id => id.split('|').at(-1).slice(0, 60),
  every: 2000,
  read,
  draw: (data, page) => [
    heading(data, page),
    h(
      'div',
      { class: 'cards', 'data-key': 'cards' },
      reasons(data),
      events(data),
      numbersOf(data),
      facts(data),
      refusals(data, page)
    )
  ]
}
