'use strict'
// Fauxton, CouchDB's web interface, in a browser (CHROMIUM). SHOTS, if it is set, is a directory for pictures of its
// pages. ADDED names a database that can be made and removed again.
const assert = require('node:assert/strict')
const path = require('node:path')
const { test, before, after } = require('node:test')
const { chromium } = require('playwright-core')
const { server, databases, anonymous, login, named, until } = require('./rig')

const basic = { authorization: 'Basic ' + btoa(`${login.username}:${login.password}`) }
let browser, page
const troubles = [] // answers that no page should get, and errors of scripts

// ask sends a request as the admin, past the browser.
const ask = async (method, path, body) => {
  const answer = await fetch(anonymous + path, {
    method, headers: { ...basic, 'content-type': 'application/json' }, body: body && JSON.stringify(body)
  })
  return answer.json()
}
// show opens a page of Fauxton anew.
const show = async fragment => {
  await page.goto('about:blank')
  await page.goto(`${anonymous}_utils/#/${fragment}`)
}
// shoot takes a picture, without the messages that fade away.
const shoot = async name => {
  if (!process.env.SHOTS) return
  await page.addStyleTag({ content: '#global-notifications, .Toastify { display: none !important }' })
  await page.screenshot({ path: path.join(process.env.SHOTS, `${name}.png`) })
}
const sees = text => page.getByText(text).first().waitFor()
// row returns the row of a table that has a text.
const row = text => page.locator('tr', { hasText: text }).first()

before(async () => {
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ['--no-sandbox'] })
  page = await browser.newPage({ viewport: { width: 1280, height: 800 } })
  page.setDefaultTimeout(15000)
  page.on('pageerror', e => troubles.push(`script: ${e.message}`))
  page.on('response', r => {
    const isFree = r.status() === 404 && r.url().endsWith(jobs.running) // the form asks whether the id is
    if (r.status() >= 400 && !isFree) troubles.push(`${r.status()} ${r.request().method()} ${r.url()}`)
  })
})
after(() => browser.close())

test('a wrong password', async () => {
  await show('')
  await page.fill('#username', login.username)
  await page.fill('#password', 'wrong')
  await page.keyboard.press('Enter')
  await sees('Name or password is incorrect')
  await until('the answer', async () => troubles.length > 0)
  assert.deepEqual(troubles.splice(0), [`401 POST ${anonymous}_session`])
})

test('the login', async () => {
  await shoot('login')
  await page.fill('#username', login.username)
  await page.fill('#password', login.password)
  await page.keyboard.press('Enter')
  await sees('Log Out')
})

test('databases', async () => {
  await sees('_users')
  await row('_replicator').waitFor()
  await shoot('databases')
})

test('a new database, and its end', async () => {
  const name = process.env.ADDED
  await page.getByRole('button', { name: 'Create Database' }).first().click()
  await page.fill('#js-new-database-name', name)
  await page.locator('#js-create-database').click()
  await until('the database', async () => (await ask('GET', encodeURIComponent(name))).db_name === name)
  await page.waitForURL(url => url.hash.includes(encodeURIComponent(name)))
  await page.waitForLoadState('networkidle') // the next page must not find requests of this one
  await page.goto('about:blank')
  assert.equal((await ask('DELETE', encodeURIComponent(name))).ok, true)
})

const open = databases.replace(/\/\/.*@/, '//') // without a password, which Fauxton has a field for
const source = named('fauxton-source')
const target = named('fauxton-target')
const jobs = { running: named('running'), completed: named('completed'), crashing: named('crashing') }

test('a replication, by the form', async () => {
  await fetch(open + source, { method: 'PUT', headers: basic })
  await show('replication/_create')
  await page.selectOption('#replication-source', { label: 'Remote database' })
  await page.fill('#replication-remote-connection-url', open + source)
  await page.selectOption('#select-replication-source-auth', 'BASIC_AUTH')
  await page.fill('#replication-source-auth-username', login.username)
  await page.fill('#replication-source-auth-password', login.password)
  const [to, type] = await page.locator('#replication-target').all()
  await to.selectOption({ label: 'New remote database' })
  await page.locator('#replication-remote-connection-url').nth(1).fill(open + target)
  await page.selectOption('#select-replication-target-auth', 'BASIC_AUTH')
  await page.fill('#replication-target-auth-username', login.username)
  await page.fill('#replication-target-auth-password', login.password)
  await type.selectOption({ label: 'Continuous' })
  await page.fill('#replication-options-replication-doc', jobs.running)
  await shoot('new-replication')
  await page.click('#replicate')
  await until('the job', async () => (await ask('GET', `_scheduler/docs/_replicator/${jobs.running}`)).state === 'running')
})

test('states of replications', async () => {
  await ask('PUT', `_replicator/${jobs.completed}`,
    { source: databases + source, target: databases + target + '-once', create_target: true })
  await ask('PUT', `_replicator/${jobs.crashing}`,
    { source: databases + named('none'), target: databases + target + '-never' })
  for (const state of ['completed', 'crashing']) {
    await until(state, async () => (await ask('GET', `_scheduler/docs/_replicator/${jobs[state]}`)).state === state)
  }
  await show('replication')
  await row(source).waitFor()
  for (const [name, state] of [[target + '-once', 'Completed'], [target + '-never', 'Retrying']]) {
    await row(name).getByText(state).waitFor()
  }
  await page.locator('tr', { hasText: 'Continuous' }).getByText('Running').first().waitFor()
  await shoot('replications')
})

test('requests to _replicate', async () => {
  const request = { source: databases + source, target: databases + target + '-request', create_target: true, continuous: true }
  assert.equal((await ask('POST', '_replicate', request)).ok, true)
  await show('replication')
  await page.getByText('_replicate Activity').click()
  await row(target + '-request').getByText('Continuous').waitFor()
  await shoot('requests')
  await ask('POST', '_replicate', { ...request, cancel: true })
})

test('active tasks', async () => {
  await show('activetasks')
  await row(target).waitFor()
  assert.match(await row(target).innerText(), /replication/)
  await shoot('active-tasks')
})

test('documents of a replicator database', async () => {
  await show('database/_replicator/_all_docs')
  await sees(jobs.running)
  await shoot('documents')
  await show(`database/_replicator/${jobs.running}`)
  await sees('"continuous"')
  await shoot('document')
})

test('users', async () => {
  const name = named('fauxton-user')
  await ask('PUT', `_users/org.couchdb.user:${name}`, { name, password: 'secret', roles: [], type: 'user' })
  await show('database/_users/_all_docs')
  await sees(`org.couchdb.user:${name}`)
  await shoot('users')
})

test('the permissions of a database', async () => {
  await show('database/_replicator/permissions')
  await sees('Members')
  await shoot('permissions')
})

test('the configuration', async () => {
  await show('_config')
  await row('bind_address').waitFor()
  await shoot('configuration')
  await page.getByRole('button', { name: 'Add Option' }).click()
  await page.fill('input[name="section"]', 'replicator')
  await page.fill('input[name="name"]', 'max_churn')
  await page.fill('input[name="value"]', '19')
  await page.getByRole('button', { name: 'Create' }).click()
  const { all_nodes: [node] } = await ask('GET', '_membership')
  const key = `_node/${node}/_config/replicator/max_churn`
  await until('the change', async () => await ask('GET', key) === '19')
  await ask('DELETE', key)
})

test('a replication is deleted', async () => {
  await show('replication')
  await page.getByRole('button', { name: `Delete document ${jobs.running}` }).click()
  await page.locator('.modal button[type=submit]').click()
  await until('the end of the job', async () => {
    const job = await ask('GET', `_scheduler/docs/_replicator/${jobs.running}`)
    return job.error === 'not_found'
  })
})

test('nothing went wrong on the way', () => assert.deepEqual(troubles, []))

test('the way out', async () => {
  await page.getByText('Log Out').click()
  await page.waitForSelector('#username')
  const [cookie] = (await page.context().cookies()).filter(c => c.name === 'AuthSession' && c.value)
  assert.equal(cookie, undefined)
})

after(async () => {
  for (const id of Object.values(jobs)) {
    const { _rev } = await ask('GET', `_replicator/${id}`)
    if (_rev) await ask('DELETE', `_replicator/${id}?rev=${_rev}`)
  }
  for (const name of [source, target, target + '-once', target + '-request']) {
    await fetch(open + name, { method: 'DELETE', headers: basic })
  }
})
