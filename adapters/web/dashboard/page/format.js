// Numbers, times and durations in words. What is rounded has the exact value in its title.
import { h } from './dom.js'

const numbers = new Intl.NumberFormat('en-US')
const compactNumbers = new Intl.NumberFormat('en-US', { notation: 'compact', maximumFractionDigits: 1 })

// count writes a whole number with separators.
export const count = n => (n === null || n === undefined ? '–' : numbers.format(n))

// compact writes a large number short, with all its digits in the title.
export function compact(n) {
  if (n === null || n === undefined) return '–'
  return n < 1e6 ? count(n) : h('span', { title: count(n) }, compactNumbers.format(n))
}

// plural writes a number with its noun.
export const plural = (n, one, many = one + 's') => `${count(n)} ${n === 1 ? one : many}`

const units = [
  ['d', 86400],
  ['h', 3600],
  ['min', 60],
  ['s', 1]
]

// duration writes seconds in the two largest units: "3 min 12 s".
export function duration(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return '–'
  if (seconds < 0) return '0 s'
  if (seconds < 10 && !Number.isInteger(seconds)) return `${seconds.toFixed(1)} s`
  const parts = []
  let left = Math.round(seconds)
  for (const [unit, size] of units) {
    const n = Math.floor(left / size)
    left -= n * size
    if (n > 0 || (unit === 's' && parts.length === 0)) parts.push(`${n} ${unit}`)
    else if (parts.length > 0) break
    if (parts.length === 2) break
  }
  return parts.join(' ')
}

// exactly is a duration with all its seconds in the title.
export const exactly = seconds =>
  seconds === null || seconds === undefined
    ? '–'
    : h('span', { title: `${numbers.format(seconds)} s` }, duration(seconds))

const clock = new Intl.DateTimeFormat(undefined, {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  hour12: false
})
const day = new Intl.DateTimeFormat(undefined, {
  day: '2-digit',
  month: 'short',
  hour: '2-digit',
  minute: '2-digit',
  hour12: false
})
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'long' })

// known reports whether a text is a time that is meant: the service writes 1970 for moments that there were not.
const known = text => text && Date.parse(text) > 0

const utc = date => date.toISOString().replace('T', ' ').replace('.000Z', ' UTC')

// local writes a moment in the browser's time zone: the clock if it is of the last day, else with the date.
export const local = date => (Math.abs(Date.now() - date) < 86400e3 ? clock : day).format(date)

// moment is a time in the browser's time zone, with UTC in the title.
export function moment(text) {
  if (!known(text)) return '–'
  const date = new Date(text)
  return h('time', { datetime: text, title: `${utc(date)} · ${whole.format(date)}` }, local(date))
}

// ago is how long ago something was, with the time itself in the title.
export function ago(text, suffix = '') {
  if (!known(text)) return '–'
  const date = new Date(text)
  const seconds = Math.max(0, Math.round((Date.now() - date) / 1000))
  return h('time', { datetime: text, title: `${utc(date)} · ${whole.format(date)}` }, duration(seconds) + suffix)
}

const signs = {
  running: '●',
  pending: '○',
  crashing: '▲',
  paused: '❙❙',
  completed: '✓',
  failed: '✕',
  unreadable: '✕',
  error: '▲',
  initializing: '○',
  up: '●',
  maintenance: '❙❙',
  draining: '◐',
  lost: '✕',
  canceled: '✕',
  held: '❙❙',
  waiting: '○'
}

// state is a state in colour and in words, which are its name unless others are given.
export const state = (name, words = name) =>
  h(
    'span',
    { class: `state ${signs[name] ? name : ''}` },
    h('span', { class: 'sign', 'aria-hidden': 'true' }, signs[name] ?? '·'),
    words
  )

// marked makes what is between backticks code.
export const marked = text => text.split('`').map((part, i) => (i % 2 ? h('code', null, part) : part))

const times = /(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)/

// sentence has the times of a text in the browser's time zone.
export const sentence = text => text.split(times).map((part, i) => (i % 2 ? moment(part) : marked(part)))
