'use strict'
// PouchDB as a client of a server that keeps replicator databases and users: over HTTP, and replicating its own
// databases into them and out of them, once and live.
const assert = require('node:assert/strict')
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const { test, after } = require('node:test')
const PouchDB = require('pouchdb')
const { server, databases, anonymous, login, named, until } = require('./rig')

const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'pouchdb-'))
after(() => fs.rmSync(directory, { recursive: true }))
const Local = PouchDB.defaults({ prefix: directory + path.sep })

// remote returns a database of the server, which PouchDB makes; its names may have slashes.
const remote = (name, options) => new PouchDB(server + encodeURIComponent(name), options)
const replicator = () => remote(named('pouch') + '/_replicator')
// over returns a replication document that makes no job.
const over = more => ({ source: databases + 'a', target: databases + 'b', _replication_state: 'completed', ...more })
const ids = async db => (await db.allDocs()).rows.map(row => row.id)
const refused = (promise, ...statuses) => assert.rejects(promise, e => {
  assert.ok(statuses.includes(e.status), `${e.status} ${e.name} ${e.reason}`)
  return true
})

test('info makes the database, destroy removes it', async () => {
  const db = replicator()
  const info = await db.info()
  assert.equal(info.doc_count, 0)
  assert.equal(info.adapter, 'http')
  assert.equal((await db.destroy()).ok, true)
})

test('auth as an option', async () => {
  const db = new PouchDB(anonymous + '_replicator', { skip_setup: true, auth: login })
  assert.equal((await db.info()).db_name, '_replicator')
})

test('a wrong password and none', async () => {
  await refused(new PouchDB(anonymous + '_replicator', { skip_setup: true }).get('x'), 401)
  await refused(new PouchDB(anonymous + '_replicator', {
    skip_setup: true, auth: { ...login, password: 'wrong' }
  }).get('x'), 401)
})

test('put, post, get, conflicts, remove', async () => {
  const db = replicator()
  const one = await db.put(over({ _id: 'one' }))
  assert.equal(one.ok, true)
  await refused(db.put(over({ _id: 'one' })), 409)
  assert.equal((await db.get('one'))._rev, one.rev)
  const two = await db.post(over())
  assert.ok(two.id)
  await refused(db.get('none'), 404)
  assert.equal((await db.get('one', { revs: true }))._revisions.start, 1)
  assert.equal((await db.get('one', { open_revs: 'all' }))[0].ok._id, 'one')
  assert.equal((await db.remove('one', one.rev)).ok, true)
  await refused(db.get('one'), 404)
  await db.destroy()
})

test('bulkDocs, bulkGet, allDocs', async () => {
  const db = replicator()
  const made = await db.bulkDocs([over({ _id: 'a' }), over({ _id: 'b' }), over({ _id: 'c' })])
  assert.deepEqual(made.map(row => row.ok), [true, true, true])
  const again = await db.bulkDocs([over({ _id: 'a' })])
  assert.equal(again[0].status, 409)
  const got = await db.bulkGet({ docs: [{ id: 'a' }, { id: 'c', rev: made[2].rev }] })
  assert.deepEqual(got.results.map(row => row.docs[0].ok._id), ['a', 'c'])
  assert.deepEqual(await ids(db), ['a', 'b', 'c'])
  const some = await db.allDocs({ keys: ['b', 'x'], include_docs: true })
  assert.equal(some.rows[0].doc._id, 'b')
  assert.equal(some.rows[1].error, 'not_found')
  assert.deepEqual((await db.allDocs({ startkey: 'b', descending: true })).rows.map(row => row.id), ['b', 'a'])
  await db.destroy()
})

test('attachments', async () => {
  const db = replicator()
  const put = await db.put(over({ _id: 'a', _attachments: { 'a.txt': { content_type: 'text/plain', data: 'dGV4dA==' } } }))
  assert.equal((await db.getAttachment('a', 'a.txt')).toString(), 'text')
  assert.equal((await db.get('a', { attachments: true }))._attachments['a.txt'].data, 'dGV4dA==')
  const more = await db.putAttachment('a', 'b.bin', put.rev, Buffer.from([0, 1, 2]), 'x/y')
  assert.deepEqual([...await db.getAttachment('a', 'b.bin')], [0, 1, 2])
  assert.equal((await db.removeAttachment('a', 'b.bin', more.rev)).ok, true)
  await db.destroy()
})

test('local documents and revsDiff', async () => {
  const db = replicator()
  assert.equal((await db.put({ _id: '_local/mark', n: 1 })).ok, true)
  assert.equal((await db.get('_local/mark')).n, 1)
  const diff = await db.revsDiff({ x: ['1-0123456789abcdef0123456789abcdef'] })
  assert.deepEqual(diff, { x: { missing: ['1-0123456789abcdef0123456789abcdef'] } })
  await db.destroy()
})

test('changes: once, with documents, by ids', async () => {
  const db = replicator()
  await db.bulkDocs([over({ _id: 'a' }), over({ _id: 'b' })])
  const all = await db.changes({ include_docs: true })
  assert.deepEqual(all.results.map(row => row.doc._id).sort(), ['a', 'b'])
  const some = await db.changes({ doc_ids: ['b'] })
  assert.deepEqual(some.results.map(row => row.id), ['b'])
  const none = await db.changes({ since: all.last_seq })
  assert.deepEqual(none.results, [])
  const chosen = await db.changes({ selector: { _id: 'a' } })
  assert.deepEqual(chosen.results.map(row => row.id), ['a'])
  await db.destroy()
})

test('changes, live', async () => {
  const db = replicator()
  const seen = []
  const feed = db.changes({ since: 'now', live: true, include_docs: true }).on('change', row => seen.push(row.doc._id))
  await until('the change', async () => {
    if (seen.length === 0) await db.post(over())
    return seen.length > 0
  })
  feed.cancel()
  await feed
  await db.destroy()
})

test('a job, watched by its document', async () => {
  const source = new PouchDB(databases + named('pouch-source'))
  await source.bulkDocs([{ _id: 'a' }, { _id: 'b' }])
  const target = databases + named('pouch-target')
  const db = remote('_replicator')
  const id = named('job')
  const ended = new Promise((resolve, reject) => {
    const feed = db.changes({ since: 'now', live: true, include_docs: true, doc_ids: [id] })
    feed.on('error', reject).on('change', row => {
      if (row.doc._replication_state) {
        feed.cancel()
        resolve(row.doc)
      }
    })
  })
  await new Promise(resolve => setTimeout(resolve, 300))
  await db.put({ _id: id, source: source.name, target, create_target: true })
  const doc = await ended
  assert.equal(doc._replication_state, 'completed')
  assert.deepEqual(await ids(new PouchDB(target)), ['a', 'b'])
  await db.remove(doc)
  for (const gone of [source, new PouchDB(target)]) await gone.destroy()
})

test('replicate into a replicator database', async () => {
  const local = new Local(named('local'))
  const db = replicator()
  const attached = { _attachments: { x: { content_type: 'x/y', data: 'AAEC' } } }
  await local.bulkDocs([over({ _id: 'a', ...attached }), over({ _id: 'b' }), over({ _id: 'c' })])
  await local.remove(await local.get('c'))
  const first = await local.replicate.to(db)
  assert.equal(first.status, 'complete')
  assert.equal(first.docs_written, 3)
  assert.deepEqual(await ids(db), ['a', 'b'])
  const whole = { attachments: true, revs: true }
  const { owner, ...there } = await db.get('a', whole)
  assert.equal(owner, login.username) // the server's own addition
  assert.deepEqual(there, await local.get('a', whole))
  const again = await local.replicate.to(db)
  assert.equal(again.docs_read, 0)
  await db.destroy()
  await local.destroy()
})

test('replicate out of a replicator database', async () => {
  const local = new Local(named('local'))
  const db = replicator()
  await db.bulkDocs([over({ _id: 'a' }), over({ _id: 'b' })])
  const first = await local.replicate.from(db)
  assert.equal(first.docs_written, 2)
  assert.deepEqual(await ids(local), ['a', 'b'])
  await db.put(over({ _id: 'c' }))
  assert.equal((await local.replicate.from(db)).docs_written, 1)
  await db.destroy()
  await local.destroy()
})

test('conflicts go both ways', async () => {
  const local = new Local(named('local'))
  const db = replicator()
  await db.put(over({ _id: 'a', side: 0 }))
  await local.replicate.from(db)
  await db.put({ ...await db.get('a'), side: 1 })
  await local.put({ ...await local.get('a'), side: 2 })
  await local.sync(db)
  const [here, there] = await Promise.all([local, db].map(d => d.get('a', { conflicts: true })))
  assert.equal(here._conflicts.length, 1)
  assert.deepEqual(there, here)
  await db.remove('a', here._conflicts[0])
  await local.sync(db)
  assert.equal((await local.get('a', { conflicts: true }))._conflicts, undefined)
  await db.destroy()
  await local.destroy()
})

test('sync, live', async () => {
  const local = new Local(named('local'))
  const db = replicator()
  const sync = local.sync(db, { live: true, retry: true })
  await local.put(over({ _id: 'from-here' }))
  await db.put(over({ _id: 'from-there' }))
  await until('both documents on both sides', async () => {
    const [here, there] = await Promise.all([ids(local), ids(db)])
    return here.length === 2 && there.length === 2
  })
  sync.cancel()
  await sync.catch(() => {})
  await db.destroy()
  await local.destroy()
})

test('a live job is stopped by a replicated deletion', async () => {
  const source = new PouchDB(databases + named('pouch-source'))
  await source.put({ _id: 'a' })
  const target = databases + named('pouch-target')
  const db = replicator()
  const local = new Local(named('local'))
  await db.put({ _id: 'job', source: source.name, target, create_target: true, continuous: true })
  await until('the copy', async () => (await ids(new PouchDB(target, { skip_setup: true })).catch(() => [])).length === 1)
  await local.replicate.from(db)
  await local.remove(await local.get('job'))
  await local.replicate.to(db)
  await refused(db.get('job'), 404)
  const name = decodeURIComponent(db.name.slice(db.name.lastIndexOf('/') + 1))
  await until('the end of the job', async () => {
    const answer = await PouchDB.fetch(`${anonymous}_scheduler/jobs`, {
      headers: { authorization: 'Basic ' + btoa(`${login.username}:${login.password}`) }
    })
    return !(await answer.json()).jobs.some(job => job.database === name)
  })
  await db.destroy()
  for (const gone of [source, new PouchDB(target)]) await gone.destroy()
  await local.destroy()
})

test('users: made, log in, read their own documents', async () => {
  const users = remote('_users')
  const name = named('pouch-user')
  const _id = 'org.couchdb.user:' + name
  await users.put({ _id, name, password: 'secret', roles: ['writers'], type: 'user' })
  const security = await PouchDB.fetch(`${anonymous}_users/_security`, {
    method: 'PUT',
    body: '{"admins":{},"members":{}}',
    headers: {
      'content-type': 'application/json', authorization: 'Basic ' + btoa(`${login.username}:${login.password}`)
    }
  })
  assert.equal(security.status, 200)
  const own = new PouchDB(anonymous + '_users', { skip_setup: true, auth: { username: name, password: 'secret' } })
  const doc = await own.get(_id)
  assert.deepEqual(doc.roles, ['writers'])
  await refused(own.put({ ...doc, roles: ['_admin'] }), 403)
  await users.remove(await users.get(_id))
  await refused(own.get(_id), 401, 404) // CouchDB knows the user for a moment longer
})
