// The page by keyboard.
import { h } from './dom.js'
import { inform, isOpen } from './dialog.js'
import { go } from './route.js'

const places = { o: 'overview', j: 'jobs', a: 'accounts', s: 'servers', n: 'nodes', f: 'follows' }

const known = [
  ['/', 'to the filter'],
  ['j, ↓', 'next row'],
  ['k, ↑', 'previous row'],
  ['Enter', 'open the row'],
  ['Esc', 'leave a field, close a dialog, go back from a job'],
  ['n, p', 'next page, previous page'],
  ['g o, g j, g a, g s, g n, g f', 'overview, jobs, accounts, servers, nodes, follows'],
  ['t', 'light, dark, or as the system says'],
  ['?', 'these keys']
]

const help = () =>
  inform(
    'Keys',
    h(
      'table',
      { class: 'keys' },
      h(
        'tbody',
        null,
        known.map(([keys, what]) =>
          h(
            'tr',
            null,
            h(
              'th',
              { scope: 'row' },
              keys.split(', ').map((k, i) => [i > 0 && ' ', h('kbd', null, k)])
            ),
            h('td', null, what)
          )
        )
      )
    )
  )

// listen acts on keys from now on.
export function listen({ main, nextTheme, up }) {
  const rows = () => [...main.querySelectorAll('tbody tr')].map(row => row.querySelector('a, button')).filter(Boolean)
  const step = by => {
    const list = rows()
    if (list.length === 0) return false
    const at = list.findIndex(link => link.closest('tr').contains(document.activeElement))
    const next = list[at < 0 ? (by > 0 ? 0 : list.length - 1) : Math.max(0, Math.min(list.length - 1, at + by))]
    next.focus()
    next.scrollIntoView({ block: 'nearest' })
  }
  let going = 0 // when g was pressed
  const acts = {
    '/': () => main.querySelector('[data-filter]')?.focus(),
    j: () => step(1),
    ArrowDown: () => step(1),
    k: () => step(-1),
    ArrowUp: () => step(-1),
    n: () => main.querySelector('[rel=next]')?.click(),
    p: () => main.querySelector('[rel=prev]')?.click(),
    g: () => {
      going = Date.now()
    },
    t: nextTheme,
    '?': help,
    Escape: up
  }
  addEventListener('keydown', event => {
    if (event.ctrlKey || event.metaKey || event.altKey || isOpen()) return
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)
    if (typing) {
      if (event.key === 'Escape') event.target.blur()
      return
    }
    if (places[event.key] && Date.now() - going < 1500) {
      going = 0
      event.preventDefault()
      return go(places[event.key])
    }
    if (!acts[event.key]) return
    if (acts[event.key]() !== false) event.preventDefault()
  })
  return { help }
}
