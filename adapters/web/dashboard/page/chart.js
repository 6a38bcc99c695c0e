// Lines over time, as SVG. Each chart has its numbers in words, for those that do not see it.
import { h, s } from './dom.js'
import { local } from './format.js'

// colours are classes of the style sheet; lines differ by their dashes, too.
const kinds = 6
const dashes = ['', '7 3', '2 3', '9 3 2 3', '5 5', '1 4']

// nice is a round number not below n, for the top of a scale.
function nice(n) {
  if (!(n > 0)) return 1
  const size = 10 ** Math.floor(Math.log10(n))
  return [1, 2, 2.5, 5, 10].find(m => m * size >= n) * size
}

const short = n => (n >= 1000 ? `${+(n / 1000).toFixed(1)}k` : `${+n.toPrecision(3)}`)

// lines draws series: { name, points: [[time, value], ...] }, times in milliseconds. It is as wide as width, in pixels.
export function lines(title, series, { width, height = 170, unit = '', from, to }) {
  const [left, right, top, bottom] = [44, 8, 8, 20]
  const all = series.flatMap(line => line.points)
  if (all.length === 0) return h('p', { class: 'dim' }, 'Nothing yet: points come as time passes.')
  from ??= Math.min(...all.map(p => p[0]))
  to ??= Math.max(...all.map(p => p[0]))
  const highest = nice(Math.max(...all.map(p => p[1])))
  const x = t => left + ((t - from) / Math.max(to - from, 1)) * (width - left - right)
  const y = v => top + (1 - v / highest) * (height - top - bottom)
  const grid = [0, 0.25, 0.5, 0.75, 1].map(part => {
    const at = y(highest * part).toFixed(1)
    return [
      s('line', { x1: left, x2: width - right, y1: at, y2: at, class: 'grid' }),
      s('text', { x: left - 7, y: at, class: 'tick', 'text-anchor': 'end', dy: '.32em' }, short(highest * part))
    ]
  })
  const marks = Math.max(2, Math.min(7, Math.floor(width / 150)))
  const times = Array.from({ length: marks }, (_, i) => from + ((to - from) * i) / (marks - 1))
  const ticks = times.map((t, i) =>
    s(
      'text',
      {
        x: x(t).toFixed(1),
        y: height - 5,
        class: 'tick',
        'text-anchor': i === 0 ? 'start' : i === marks - 1 ? 'end' : 'middle'
      },
      local(t)
    )
  )
  const drawn = series.map((line, i) =>
    s(
      'path',
      {
        class: `line s${i % kinds}`,
        'stroke-dasharray': dashes[i % kinds],
        d: line.points.map(([t, v], n) => `${n ? 'L' : 'M'}${x(t).toFixed(1)} ${y(v).toFixed(1)}`).join('')
      },
      s('title', null, line.name)
    )
  )
  const words = series.map(line => `${line.name} ${short(line.points.at(-1)?.[1] ?? 0)}${unit}`).join(', ')
  return h(
    'figure',
    { class: 'chart', 'data-key': title },
    s(
      'svg',
      { width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `${title}; at last: ${words}` },
      grid,
      ticks,
      drawn
    ),
    h(
      'figcaption',
      null,
      series.map((line, i) =>
        h(
          'span',
          { class: 'key' },
          s(
            'svg',
            { width: 26, height: 8, 'aria-hidden': 'true' },
            s('path', { d: 'M0 4h26', class: `line s${i % kinds}`, 'stroke-dasharray': dashes[i % kinds] })
          ),
          line.name
        )
      )
    )
  )
}

// spark is a small line without a scale.
export function spark(title, points, width = 150, height = 30) {
  if (points.length < 2) return s('svg', { width, height, class: 'spark', 'aria-hidden': 'true' })
  const [from, to] = [points[0][0], points.at(-1)[0]]
  const highest = Math.max(...points.map(p => p[1])) || 1
  const at = points.map(
    ([t, v]) =>
      `${(((t - from) / Math.max(to - from, 1)) * width).toFixed(1)} ${(height - 2 - (v / highest) * (height - 4)).toFixed(1)}`
  )
  return s(
    'svg',
    { width, height, class: 'spark', role: 'img', 'aria-label': `${title}: at most ${short(highest)}` },
    s('path', { class: 'area', d: `M${at.join('L')}L${width} ${height}L0 ${height}z` }),
    s('path', { class: 'line s0', d: `M${at.join('L')}` })
  )
}

// bar is a part of a whole, as a bar.
export function bar(part, whole, title) {
  const share = whole > 0 ? Math.max(0, Math.min(1, part / whole)) : 0
  return s(
    'svg',
    { class: 'bar-of', width: 110, height: 10, viewBox: '0 0 110 10', role: 'img', 'aria-label': title },
    s('title', null, title),
    s('rect', { width: 110, height: 10, rx: 3, class: 'whole' }),
    s('rect', { width: (110 * share).toFixed(1), height: 10, rx: 3, class: 'part' })
  )
}
