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

let fading = 0

// tell says what became of something, for a while.
export function tell(text, kind = 'good') {
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
