// The history of a job as a picture: one bar, from the oldest event that is known to now, coloured by states.
import { h, s } from './dom.js'
import { duration, local, state as stateOf } from './format.js'

// after is the state behind an event; others change none.
export const after = {
  added: 'pending',
  pending: 'pending',
  stopped: 'pending',
  resumed: 'pending',
  retried: 'pending',
  waiting: 'pending',
  started: 'running',
  crashed: 'crashing',
  paused: 'paused'
}

const width = 1000
const height = 34

// spans are the stretches of a history, oldest first, with the state of each and the events at its beginning.
function spans(history, state, now) {
  const list = []
  for (const e of [...history].reverse()) {
    const at = Date.parse(e.timestamp)
    const last = list.at(-1)
    const next = after[e.type] ?? last?.state ?? 'pending'
    if (last) last.until = Math.max(at, last.at)
    list.push({ at, until: now, state: next, event: e })
  }
  const last = list.at(-1)
  if (last) last.state = state
  if (last && (state === 'completed' || state === 'failed')) last.ended = true
  return list
}

export function timeline(history, state) {
  const now = Date.now()
  const list = spans(history, state, now)
  if (list.length === 0) return h('p', { class: 'dim' }, 'No events are known.')
  const from = list[0].at
  const all = Math.max(now - from, 1000)
  const x = t => ((t - from) / all) * width
  const bars = list.map(({ at, until, state, event }) =>
    s(
      'rect',
      {
        x: x(at).toFixed(1),
        y: 6,
        width: Math.max(x(until) - x(at), 1.5).toFixed(1),
        height: height - 12,
        class: `span ${state}`
      },
      s(
        'title',
        null,
        `${event.type} ${local(at)}: ${state} for ${duration((until - at) / 1000)}${event.reason ? '\n' + event.reason : ''}`
      )
    )
  )
  const marks = list
    .filter(e => e.event.type === 'crashed')
    .map(e =>
      s('path', { d: `M${Math.min(Math.max(x(e.at), 4), width - 4).toFixed(1)} 6l4 -6h-8z`, class: 'mark crashing' })
    )
  const sums = {}
  for (const e of list) sums[e.state] = (sums[e.state] ?? 0) + (e.until - e.at) / 1000
  const words = Object.entries(sums)
    .map(([name, t]) => `${name} ${duration(t)}`)
    .join(', ')
  return h(
    'figure',
    { class: 'timeline' },
    s(
      'svg',
      {
        viewBox: `0 0 ${width} ${height}`,
        preserveAspectRatio: 'none',
        role: 'img',
        'aria-label': `History since ${local(from)}: ${words}`
      },
      bars,
      marks
    ),
    h(
      'div',
      { class: 'ends' },
      h('span', null, local(from)),
      h(
        'span',
        { class: 'sums' },
        Object.entries(sums).map(([name, t]) => h('span', null, stateOf(name), ' ', duration(t)))
      ),
      h('span', null, 'now')
    )
  )
}
