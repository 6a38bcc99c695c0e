'use strict'
// A service of its own (BINARY), which can be ended and started again, for tests of the dashboard. It has the admin adm,
// whose password is pass, and the user eve (secret) with a request; documents that run, crash, failed and are paused,
// and one whose id is markup.
const assert = require('node:assert/strict')
const { spawn } = require('node:child_process')
const fs = require('node:fs')
const net = require('node:net')
const os = require('node:os')
const path = require('node:path')
const { setTimeout: pause } = require('node:timers/promises')

const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'couchrelay-dashboard'))
const hostile = `<img src=x onerror="document.title='run'">`
let relay
const at = {} // port, box: the ports of the service and of its databases in memory; root: the URL of the service

const freePort = () =>
  new Promise(resolve => {
    const server = net.createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address()
      server.close(() => resolve(port))
    })
  })

// until waits for something that comes true.
async function until(what, holds) {
  for (const end = Date.now() + 20000; ; await pause(50)) {
    if (await holds()) return
    assert.ok(Date.now() < end, `no ${what} in 20 seconds`)
  }
}

// start starts the service on its store, and waits for it.
async function start() {
  relay = spawn(
    process.env.BINARY,
    [
      'serve',
      '--config',
      path.join(dir, 'relay.ini'),
      '--store',
      path.join(dir, 'store'),
      '--port',
      at.port,
      '--sandbox',
      at.box,
      '--name',
      'relay1'
    ],
    { stdio: ['ignore', 'ignore', fs.openSync(path.join(dir, 'log'), 'a')] }
  )
  await until('service', () =>
    fetch(`${at.root}_up`).then(
      a => a.ok,
      () => false
    )
  )
}

// kill ends the service at once.
const kill = () =>
  new Promise(resolve => {
    relay.once('exit', resolve)
    relay.kill('SIGKILL')
  })

const as = (name, password) => ({ authorization: 'Basic ' + btoa(`${name}:${password}`), 'content-type': 'application/json' })
const adm = as('adm', 'pass')
const eve = as('eve', 'secret')

// ask sends a request past the browser.
async function ask(method, path, body, headers = adm) {
  const answer = await fetch(at.root + path, { method, headers, body: body && JSON.stringify(body) })
  return answer.json()
}

const jobOf = async id => (await ask('GET', `_scheduler/docs/_replicator/${encodeURIComponent(id)}`)).job
const stateOf = async id => (await ask('GET', `_scheduler/docs/_replicator/${encodeURIComponent(id)}`)).state

// begin makes the service, with all that tests need.
async function begin() {
  at.port = await freePort()
  at.box = await freePort()
  at.root = `http://127.0.0.1:${at.port}/`
  fs.writeFileSync(path.join(dir, 'relay.ini'), '[admins]\nadm = pass\n[replicator]\nendpoint_allow = 127.0.0.0/8\nretries_per_request = 1\n')
  await start()
  const sandbox = `http://127.0.0.1:${at.box}/`
  for (const database of ['_users', '_replicator']) await ask('PUT', database)
  await ask('PUT', '_users/org.couchdb.user:eve', { name: 'eve', password: 'secret', roles: [], type: 'user' })
  await fetch(sandbox + 'source', { method: 'PUT' })
  await fetch(sandbox + 'source/doc', { method: 'PUT', body: '{}', headers: { 'content-type': 'application/json' } })
  const replication = target => ({ source: sandbox + 'source', target: sandbox + target, create_target: true, continuous: true })
  await ask('PUT', '_replicator/runs', replication('copy'))
  await ask('PUT', `_replicator/${encodeURIComponent(hostile)}`, { ...replication('h'), source: sandbox + 'none%3Cscript%3E' })
  await ask('PUT', '_replicator/failed', { ...replication('f'), _replication_state: 'failed', _replication_state_reason: hostile })
  await ask('PUT', '_replicator/doomed', { ...replication('d'), paused: true })
  await ask('POST', '_replicator/_bulk_docs', {
    docs: Array.from({ length: 60 }, (_, i) => ({ _id: `page-${String(i).padStart(2, '0')}`, ...replication(`p${i}`), paused: true }))
  })
  await ask('POST', '_replicate', replication('eve'), eve)
  await until('run', async () => (await stateOf('runs')) === 'running')
  await until('crash', async () => (await stateOf(hostile)) === 'crashing')
}

// end ends the service for good.
function end() {
  relay?.kill('SIGKILL')
  fs.rmSync(dir, { recursive: true, force: true })
}

module.exports = { ask, at, begin, end, hostile, jobOf, kill, pause, start, stateOf, until }
