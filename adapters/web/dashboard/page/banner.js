// What the page has to say beside its view: that the node is silent, and what became of an order.
import { h, show } from './dom.js'
import { duration, local } from './format.js'

const awayAt = document.getElementById('away')
const toldAt = document.getElementById('told')
let since = null
let next = 0
let ticking = 0

// away says that the node does not answer, since when, and when the page asks again. Readers hear it once: the part that
// counts is hidden from them.
export function away(why, pause) {
  since ??= new Date()
  next = Date.now() + pause
  clearInterval(ticking)
  ticking = setInterval(count, 1000)
  show(
    awayAt,
    h(
      'div',
      { class: 'banner' },
      h('strong', null, `No answer since ${local(since)}`),
      h('span', { class: 'why' }, why),
      h('span', { 'aria-hidden': 'true', class: 'counting' }),
      h('span', { class: 'unseen' }, 'The page shows what was known then, and tries again by itself.')
    )
  )
  count()
}

function count() {
  const left = Math.ceil((next - Date.now()) / 1000)
  awayAt.querySelector('.counting').textContent =
    `for ${duration(((Date.now() - since) / 1000) | 0)}; ${left > 0 ? `trying again in ${left} s` : 'trying now'}`
}

// back takes that away again.
export function back() {
  if (since === null) return
  clearInterval(ticking)
  show(awayAt)
  tell(`The node answers again, after ${duration(((Date.now() - since) / 1000) | 0)}.`)
  since = null
}

const lostAt = document.getElementById('lost')
const live = new Map() // nodes that were alive while the page is open, by name, and when they were lost
const closed = new Set() // names of lost nodes that the user does not want to be told of

// watch looks for nodes that were alive and are lost.
export function watch(nodes) {
  for (const { name, status, last_seen: seen } of nodes) {
    if (status !== 'lost') {
      live.set(name, null)
      closed.delete(name)
    } else if (live.has(name)) live.set(name, seen)
  }
  const lost = [...live].filter(([name, seen]) => seen && !closed.has(name))
  const close = () => {
    for (const [name] of lost) closed.add(name)
    show(lostAt)
  }
  show(
    lostAt,
    lost.length > 0 &&
      h(
        'div',
        { class: 'banner' },
        lost.map(([name, seen]) =>
          h('strong', { 'data-key': name }, `Node ${name} is lost since ${local(new Date(seen))}`)
        ),
        h('span', null, 'Other nodes take over its jobs, from their last checkpoints.'),
        h('button', { class: 'quiet counting', 'aria-label': 'Close', onclick: close }, '✕')
      )
  )
}

let fading = 0

// tell says what became of something, for a while.
export function tell(text, kind = 'done') {
  clearTimeout(fading)
  show(
    toldAt,
    h(
      'div',
      { class: `toast ${kind}`, 'data-key': text },
      text,
      h('button', { class: 'quiet', 'aria-label': 'Close', onclick: () => show(toldAt) }, '✕')
    )
  )
  fading = setTimeout(() => show(toldAt), kind === 'bad' ? 20000 : 8000)
}
