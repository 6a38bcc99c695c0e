// The statistics of the node that answers, in CouchDB's tree, and how they went while the page is open.
import { session, shared } from './api.js'

// nodesOf are the nodes as _scheduler/nodes has them.
export const nodesOf = () => shared('_scheduler/nodes', 1500)

let recorded = null

// statsOf reads the tree of the node that answers. Behind [front] only its own name, and not _local, is this service's.
export async function statsOf() {
  const node = session.admin ? (await nodesOf()).answered_by : '_local'
  const tree = await shared(`_node/${encodeURIComponent(node)}/_stats`, 2000)
  if (tree !== recorded) record(tree)
  recorded = tree
  return tree
}

// stat is the value at a path of the tree, undefined if there is none.
export function stat(tree, path) {
  let at = tree
  for (const name of path.split('/')) at = at?.[name]
  return at?.value
}

// sum adds up the values below a path of the tree, of one label or of two; of may choose among the labels.
function sum(tree, path, of = () => true) {
  let at = tree
  for (const name of path.split('/')) at = at?.[name]
  const below = (part, labels) => {
    if (part?.type) return of(...labels) ? part.value : 0
    return Object.entries(part ?? {}).reduce((n, [label, next]) => n + below(next, [...labels, label]), 0)
  }
  return below(at, [])
}

// counters are the numbers whose history is kept.
const counters = {
  starts: tree => stat(tree, 'couch_replicator/jobs/starts'),
  crashes: tree => stat(tree, 'couch_replicator/jobs/crashes'),
  written: tree => stat(tree, 'couchrelay/documents_written_total'),
  requests: tree => stat(tree, 'couch_replicator/requests'),
  stalled: tree => sum(tree, 'couchrelay/run_ends_total', (...labels) => labels.includes('stalled'))
}

const longest = 720
const history = []

function record(tree) {
  const sample = { at: Date.now() }
  for (const [name, read] of Object.entries(counters)) sample[name] = read(tree) ?? 0
  if (history.length > 0 && sample.starts < history.at(-1).starts) history.length = 0 // the node began anew, or is another one
  history.push(sample)
  if (history.length > longest) history.shift()
}

// latest is the last sample of all counters, undefined before the first.
export const latest = () => history.at(-1)

// rates are how fast a counter grew, in a second, since the page is open: points of time and rate.
export function rates(name) {
  const points = []
  for (let i = 1; i < history.length; i++) {
    const [a, b] = [history[i - 1], history[i]]
    points.push([b.at, Math.max(0, b[name] - a[name]) / Math.max((b.at - a.at) / 1000, 0.1)])
  }
  return points
}
