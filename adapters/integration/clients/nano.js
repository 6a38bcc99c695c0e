'use strict'
// nano, as its README uses it, with a server that keeps replicator databases and users. SERVER is its URL with an
// admin's name and password, DATABASES the URL of the server that the replications are between.
const assert = require('node:assert/strict')
const { test } = require('node:test')
const nano = require('nano')
const { server, databases, anonymous, login, named, until } = require('./rig')

const couch = nano(server)
const replicator = couch.use('_replicator')

// refused asserts that a promise fails with one of the statuses.
const refused = (promise, ...statuses) => assert.rejects(promise, e => {
  assert.ok(statuses.includes(e.statusCode), `${e.statusCode} ${e.message}`)
  return true
})

test('info', async () => {
  const info = await couch.info()
  assert.equal(info.couchdb, 'Welcome')
  assert.match(info.version, /^3\./)
})

test('uuids', async () => {
  const { uuids } = await couch.uuids(3)
  assert.equal(new Set(uuids).size, 3)
})

test('auth with a cookie', async () => {
  const client = nano(anonymous)
  const answer = await client.auth(login.username, login.password)
  assert.deepEqual(answer, { ok: true, name: login.username, roles: ['_admin'] })
  const session = await client.session()
  assert.equal(session.ok, true)
  assert.equal(session.userCtx.name, login.username)
  assert.deepEqual(session.userCtx.roles, ['_admin'])
  assert.equal(session.info.authenticated, 'cookie')
  assert.ok((await client.db.list()).includes('_replicator'))
})

test('auth with a wrong password', () => refused(nano(anonymous).auth(login.username, 'wrong'), 401))

test('a request without a login', () => refused(nano(anonymous).db.list(), 401))

test('session without a login', async () => {
  const session = await nano(anonymous).session()
  assert.deepEqual(session.userCtx, { name: null, roles: [] })
})

test('a replicator database: create, get, list, destroy', async () => {
  const name = named('nano') + '/_replicator'
  assert.deepEqual(await couch.db.create(name), { ok: true })
  await refused(couch.db.create(name), 412)
  const info = await couch.db.get(name)
  assert.equal(info.db_name, name)
  assert.equal(info.doc_count, 0)
  assert.ok((await couch.db.list()).includes(name))
  assert.equal(couch.use(name).config.db, name)
  assert.equal((await couch.use(name).info()).db_name, name)
  assert.deepEqual(await couch.db.destroy(name), { ok: true })
  await refused(couch.db.get(name), 404)
})

test('db.list as a stream', async () => {
  let text = ''
  for await (const part of couch.db.listAsStream()) text += part
  assert.ok(JSON.parse(text).includes('_replicator'))
})

test('documents: insert, get, head, list, fetch, bulk, copy of a revision, destroy', async () => {
  const name = named('nano') + '/_replicator'
  await couch.db.create(name)
  const db = couch.use(name)
  // They are over already, so none of them makes a job.
  const over = more => ({ source: databases + 'a', target: databases + 'b', _replication_state: 'completed', ...more })
  const first = await db.insert(over({ n: 1 }), 'one')
  assert.equal(first.ok, true)
  assert.equal(first.id, 'one')
  await refused(db.insert(over({ n: 2 }), 'one'), 409)
  const got = await db.get('one')
  assert.equal(got._rev, first.rev)
  assert.equal(got.n, 1)
  assert.equal((await db.get('one', { revs_info: true }))._revs_info[0].status, 'available')
  assert.equal((await db.head('one')).etag, JSON.stringify(first.rev))
  const second = await db.insert(over({ n: 2, _rev: first.rev }), 'one')
  assert.match(second.rev, /^2-/)
  const bulk = await db.bulk({ docs: [over({ _id: 'two' }), over({ _id: 'three' })] })
  assert.deepEqual(bulk.map(row => row.id), ['two', 'three'])
  const list = await db.list()
  assert.deepEqual(list.rows.map(row => row.id), ['one', 'three', 'two'])
  assert.equal(list.total_rows, 3)
  const some = await db.list({ include_docs: true, start_key: 'three', limit: 1 })
  assert.equal(some.rows[0].doc._id, 'three')
  const fetched = await db.fetch({ keys: ['two', 'none'] })
  assert.equal(fetched.rows[0].doc._id, 'two')
  assert.equal(fetched.rows[1].error, 'not_found')
  const revs = await db.fetchRevs({ keys: ['one'] })
  assert.equal(revs.rows[0].value.rev, second.rev)
  let text = ''
  for await (const part of db.listAsStream({ include_docs: true })) text += part
  assert.equal(JSON.parse(text).rows.length, 3)
  assert.equal((await db.destroy('one', second.rev)).ok, true)
  await refused(db.get('one'), 404)
  await couch.db.destroy(name)
})

test('attachments: insert, get, as a stream, multipart, destroy', async () => {
  const name = named('nano') + '/_replicator'
  await couch.db.create(name)
  const db = couch.use(name)
  const over = { source: databases + 'a', target: databases + 'b', _replication_state: 'completed' }
  const doc = await db.insert(over, 'doc')
  const put = await db.attachment.insert('doc', 'a.txt', Buffer.from('text'), 'text/plain', { rev: doc.rev })
  assert.equal(put.ok, true)
  assert.equal((await db.attachment.get('doc', 'a.txt')).toString(), 'text')
  let text = ''
  for await (const part of db.attachment.getAsStream('doc', 'a.txt')) text += part
  assert.equal(text, 'text')
  const many = await db.multipart.insert(over, [{ name: 'b', data: 'other', content_type: 'x/y' }], 'multi')
  assert.equal(many.ok, true)
  assert.ok((await db.multipart.get('multi')).toString().includes('other'))
  assert.equal((await db.attachment.destroy('doc', 'a.txt', { rev: put.rev })).ok, true)
  await couch.db.destroy(name)
})

test('changes: once, as a stream, by ChangesReader with live documents', async () => {
  const name = named('nano') + '/_replicator'
  await couch.db.create(name)
  const db = couch.use(name)
  const over = { source: databases + 'a', target: databases + 'b', _replication_state: 'completed' }
  await db.insert(over, 'one')
  const once = await couch.db.changes(name, { include_docs: true })
  assert.equal(once.results.length, 1)
  assert.equal(once.results[0].doc._id, 'one')
  assert.equal(once.pending, 0)
  const batch = await new Promise((resolve, reject) =>
    db.changesReader.get({ since: 0 }).on('batch', resolve).on('error', reject))
  assert.deepEqual(batch.map(row => row.id), ['one'])
  const seen = []
  const live = db.changesReader.start({ since: 'now', wait: false, timeout: 5000 })
  live.on('change', row => seen.push(row.id))
  await until('the changes', async () => {
    if (seen.length === 0) await db.insert(over, `live-${Date.now()}`)
    return seen.length > 0
  })
  db.changesReader.stop()
  await couch.db.destroy(name)
})

test('replication.enable, query and disable', async () => {
  const source = named('nano-source')
  await nano(databases).db.create(source)
  await nano(databases).use(source).bulk({ docs: [{ _id: 'a' }, { _id: 'b' }] })
  const target = named('nano-target')
  const made = await couch.db.replication.enable(databases + source, databases + target,
    { create_target: true, continuous: true })
  assert.equal(made.ok, true)
  const doc = await couch.db.replication.query(made.id)
  assert.equal(doc.continuous, true)
  await until('the copies', async () => {
    const info = await nano(databases).db.get(target).catch(() => ({}))
    return info.doc_count === 2
  })
  const jobs = await couch.request({ path: '_scheduler/jobs' })
  assert.ok(jobs.jobs.some(job => job.doc_id === made.id))
  const view = await couch.request({ path: `_scheduler/docs/_replicator/${made.id}` })
  assert.equal(view.state, 'running')
  const tasks = await couch.request({ path: '_active_tasks' })
  assert.ok(tasks.some(task => task.doc_id === made.id && task.type === 'replication'))
  const gone = await couch.db.replication.disable(made.id, doc._rev)
  assert.equal(gone.ok, true)
  await refused(couch.db.replication.query(made.id), 404)
  for (const name of [source, target]) await nano(databases).db.destroy(name)
})

test('db.replicate', async () => {
  const source = named('nano-source')
  const target = named('nano-target')
  await nano(databases).db.create(source)
  await nano(databases).use(source).insert({}, 'a')
  const answer = await couch.db.replicate(databases + source, databases + target, { create_target: true })
  assert.equal(answer.ok, true)
  assert.equal(answer.history[0].docs_written, 1)
  assert.equal((await nano(databases).use(target).get('a'))._id, 'a')
  await refused(couch.db.replicate(databases + named('none'), databases + target), 404, 500) // as documented, and as CouchDB does
  for (const name of [source, target]) await nano(databases).db.destroy(name)
})

test('a user: made, logs in, changes the password, is deleted', async () => {
  const users = couch.use('_users')
  // Other than by default, users may read and write their own documents.
  await couch.request({ db: '_users', path: '_security', method: 'PUT', body: { admins: {}, members: {} } })
  const name = named('nano-user')
  const id = 'org.couchdb.user:' + name
  const made = await users.insert({ name, password: 'first', roles: [], type: 'user' }, id)
  assert.equal(made.ok, true)
  const client = nano(anonymous)
  assert.deepEqual(await client.auth(name, 'first'), { ok: true, name, roles: [] })
  const own = await client.use('_users').get(id)
  assert.equal(own.password, undefined)
  assert.equal(own.password_scheme, 'pbkdf2')
  await refused(client.db.list(), 401)
  await client.use('_users').insert({ _id: id, _rev: own._rev, name, password: 'second', roles: [], type: 'user' })
  await refused(nano(anonymous).auth(name, 'first'), 401)
  assert.equal((await nano(anonymous).auth(name, 'second')).ok, true)
  const last = await users.get(id)
  assert.equal((await users.destroy(id, last._rev)).ok, true)
  await refused(nano(anonymous).auth(name, 'second'), 401)
})

test('a replication document that is wrong', async () => {
  await refused(replicator.insert({ source: 1, target: databases + 'b' }, named('nano-wrong')), 403)
})

test('the configuration, by request', async () => {
  assert.equal(await couch.request({ path: '_node/_local/_config/chttpd/bind_address' }), '127.0.0.1')
  const max_churn = { path: '_node/_local/_config/replicator/max_churn' }
  await couch.request({ ...max_churn, method: 'PUT', body: '19' })
  assert.equal(await couch.request({ ...max_churn, method: 'PUT', body: '20' }), '19')
  assert.equal(await couch.request(max_churn), '20')
  assert.equal(await couch.request({ ...max_churn, method: 'DELETE' }), '20')
})
