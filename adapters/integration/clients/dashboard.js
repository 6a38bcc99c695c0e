'use strict'
// The dashboard in a browser (CHROMIUM), with a service of its own (BINARY), which can be ended and started again.
// SHOTS, if it is set, is a directory for pictures of the page.
const assert = require('node:assert/strict')
const http = require('node:http')
const path = require('node:path')
const { test, before, after } = require('node:test')
const { chromium } = require('playwright-core')
const { ask, at: service, begin, end, hostile, jobOf, kill, pause, start, stateOf, until } = require('./dashboard_rig')

let proxy, browser, page
const troubles = [] // what no page should do

// open opens the dashboard in a page of its own, without a login.
async function open(options = {}, address = `${service.root}_dashboard/`) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options })
  await context.addInitScript(() => {
    addEventListener('securitypolicyviolation', e => console.error(`POLICY ${e.violatedDirective} ${e.blockedURI}`))
  })
  const opened = await context.newPage()
  opened.setDefaultTimeout(10000)
  opened.on('pageerror', e => troubles.push(`script: ${e.message}`))
  opened.on('dialog', d => {
    troubles.push(`dialog: ${d.message()}`)
    d.dismiss()
  })
  opened.on('console', m => {
    if (/POLICY|Security Policy|Error:/.test(m.text())) troubles.push(m.text())
  })
  opened.on('request', r => {
    if (new URL(r.url()).host !== new URL(address).host) troubles.push(`request to ${r.url()}`)
  })
  await opened.goto(address)
  return opened
}

async function enter(into, name, password) {
  await into.fill('input[name=name]', name)
  await into.fill('input[name=password]', password)
  await into.keyboard.press('Enter')
  await into.waitForSelector('nav a')
}

// show goes to a place of the page, and waits until it is drawn.
async function show(fragment, at = page) {
  await at.evaluate(f => {
    document.getElementById('main').removeAttribute('data-drawn')
    location.hash = f
  }, fragment)
  await at.waitForSelector('main[data-drawn]')
}

// wake has the page look at once, as one that was hidden does.
const wake = at => at.evaluate(() => document.dispatchEvent(new Event('visibilitychange')))

const shoot = async (name, at = page) => process.env.SHOTS && at.screenshot({ path: path.join(process.env.SHOTS, `${name}.png`) })
const rows = (at = page) => at.locator('main table tbody tr')
const row = (text, at = page) => at.locator('main tbody tr', { hasText: text }).first()
const sees = (text, at = page) => at.getByText(text).first().waitFor()

before(async () => {
  await begin()
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ['--no-sandbox'] })
  page = await open()
})

after(async () => {
  await browser?.close()
  proxy?.close()
  end()
})

test('a login that is wrong, and one that is right', async () => {
  await page.fill('input[name=name]', 'adm')
  await page.fill('input[name=password]', 'wrong')
  await page.keyboard.press('Enter')
  await sees('Name or password is incorrect.')
  await shoot('login')
  await enter(page, 'adm', 'pass')
  await sees('admin')
})

test('the first picture has the totals', async () => {
  await page.waitForSelector('main[data-drawn=overview]')
  await until('totals', async () => (await page.locator('.tile.paused .big').innerText()) === '61')
  assert.equal(await page.locator('.tile.failed .big').innerText(), '1')
  await row('db_not_found').getByText('create the database').waitFor()
  await sees('of 500 in use')
  await shoot('overview')
})

test('names that are markup stay texts', async () => {
  await show('#/jobs?state=crashing')
  assert.equal(await row('<img').locator('a').innerText(), hostile)
  await row('<img').locator('a').click()
  await page.waitForSelector('main[data-drawn=job]')
  assert.equal(await page.locator('h1').innerText(), hostile)
  await shoot('job-hostile')
  await show('#/jobs?state=failed')
  assert.match(await row('failed').innerText(), /<img src=x/)
  await show(`#/job/${encodeURIComponent(hostile)}`)
  await sees('All jobs')
  assert.equal(await page.locator('main img').count(), 0)
  assert.doesNotMatch(await page.title(), /^run$/)
})

test('filters choose jobs, and are in the address', async () => {
  await show('#/jobs')
  await page.getByRole('button', { name: 'paused' }).click()
  await page.waitForURL(/state=paused/)
  await until('paused jobs', async () => (await rows().count()) === 50 && (await page.locator('.range').innerText()) === '1–50 of 61')
  await page.getByLabel('Id').fill(await jobOf('page-07'))
  await page.keyboard.press('Enter')
  await until('one job', async () => (await rows().count()) === 1)
  await row('page-07').waitFor()
  await page.getByText('Clear').click()
  await until('all', async () => (await rows().count()) === 50)
  await page.getByLabel('Error').fill('db_not_found')
  await page.getByLabel('Error').press('Enter')
  await until('the job with the error', async () => (await rows().count()) === 1)
  await page.getByLabel('Server').fill('no host')
  await page.getByLabel('Server').press('Enter')
  await sees('`server` must be a host name')
  await page.getByLabel('Server').fill('elsewhere.example')
  await page.getByLabel('Server').press('Enter')
  await sees('No job matches')
  assert.match(page.url(), /server=elsewhere.example.*error=db_not_found|error=db_not_found.*server=elsewhere.example/)
})

test('a page at a time, forwards and back', async () => {
  await show('#/jobs?state=paused&limit=25')
  const read = async range => {
    await until(range, async () => (await page.locator('.range').innerText()) === range)
    return page.locator('main tbody th').allInnerTexts()
  }
  const [first] = [await read('1–25 of 61')]
  await page.getByRole('link', { name: 'Next' }).click()
  const second = await read('26–50 of 61')
  await page.getByRole('link', { name: 'Next' }).click()
  const third = await read('51–61 of 61')
  assert.equal(new Set([...first, ...second, ...third]).size, 61)
  assert.equal(await page.getByRole('link', { name: 'Next' }).count(), 0)
  await page.getByRole('link', { name: 'Previous' }).click()
  assert.deepEqual(await read('26–50 of 61'), second)
  await page.reload()
  await until('the page after a reload', async () => (await rows().count()) === 25)
  assert.deepEqual(await page.locator('main tbody th').allInnerTexts(), second)
})

test('one job: why, history, numbers', async () => {
  await show(`#/job/${encodeURIComponent(await jobOf('runs'))}`)
  await sees('The job runs on relay1')
  assert.match(await page.locator('.timeline svg').getAttribute('aria-label'), /running/)
  await row('started').waitFor()
  await until('its numbers', async () => /Documents written\s+1\s/.test(await page.locator('[data-key=numbers]').innerText()))
  await shoot('job')
})

test('pause and resume, with a reason', async () => {
  await show(`#/job/${encodeURIComponent(await jobOf('runs'))}`)
  await page.getByRole('button', { name: 'Pause' }).click()
  await page.getByLabel('Reason').fill(hostile)
  await page.keyboard.press('Enter')
  await until('the pause', async () => (await stateOf('runs')) === 'paused')
  await page.locator('[data-key=heading]').getByText('paused').waitFor()
  await row(hostile).waitFor()
  await page.getByRole('button', { name: 'Resume' }).click()
  await until('the job again', async () => (await stateOf('runs')) === 'running')
})

test('what loses something asks first', async () => {
  await show(`#/job/${encodeURIComponent(await jobOf('doomed'))}`)
  await page.getByRole('button', { name: 'Cancel…' }).click()
  await sees('Document doomed of _replicator is deleted')
  await shoot('confirm')
  await page.keyboard.press('Escape')
  await page.getByRole('button', { name: 'Cancel…' }).click()
  await page.keyboard.press('Enter') // the focus is on the way out
  assert.equal(await page.locator('dialog[open]').count(), 0)
  await page.getByRole('button', { name: 'Reset…' }).click()
  await sees('The checkpoints on both sides are discarded')
  await page.getByRole('button', { name: 'Leave it' }).click()
  assert.equal(await stateOf('doomed'), 'paused')
  assert.equal((await ask('GET', `_scheduler/jobs/${encodeURIComponent(await jobOf('doomed'))}`)).reset, undefined)
  await page.getByRole('button', { name: 'Cancel…' }).click()
  await page.getByRole('button', { name: 'Cancel the job' }).click()
  await page.waitForURL(/#\/jobs/)
  await sees('document doomed of _replicator is deleted')
  assert.equal((await ask('GET', '_replicator/doomed')).error, 'not_found')
})

test('accounts, nodes, follows', async () => {
  await show('#/accounts')
  await row('_replicator').waitFor()
  await row('user:eve').waitFor()
  await shoot('accounts')
  await show('#/nodes')
  assert.match(await row('relay1').innerText(), /up/)
  await show('#/follows')
  await sees('No database is followed')
})

test('servers, with a hold that is set and lifted', async () => {
  await show('#/servers')
  const server = `127.0.0.1:${service.box}`
  await row(server).getByText('db_not_found').waitFor()
  await page.getByRole('button', { name: `Hold ${server}` }).click()
  await page.getByLabel('Reason').fill('maintenance')
  await page.getByLabel('Reason').press('Enter')
  await row('maintenance').waitFor()
  await until('the job without its run', async () => (await stateOf('runs')) === 'pending')
  await shoot('servers')
  await page
    .getByRole('button', { name: `Lift server:${server}` })
    .first()
    .click()
  await sees('is lifted')
  await until('no hold', async () => (await ask('GET', '_scheduler/holds')).total_rows === 0)
  await until('the end of the hold in the page', async () => (await page.getByRole('button', { name: 'Lift' }).count()) === 0)
})

test('an ordinary user sees its own jobs, and no more', async () => {
  const hers = await open()
  await enter(hers, 'eve', 'secret')
  await hers.waitForSelector('main[data-drawn=jobs]')
  await until('her job', async () => (await rows(hers).count()) === 1)
  await rows(hers).locator('a').click()
  await hers.waitForSelector('main[data-drawn=job]')
  await hers.getByRole('button', { name: 'Pause' }).waitFor()
  for (const view of ['overview', 'accounts', 'servers', 'nodes', 'follows']) {
    await show(`#/${view}`, hers)
    await sees('to admins of the server only', hers)
  }
  await shoot('refused', hers)
  await show(`#/job/${encodeURIComponent(await jobOf('runs'))}`, hers)
  await sees('missing', hers)
  await hers.getByRole('button', { name: 'Log out' }).click()
  await sees('You are logged out.', hers)
  assert.deepEqual(
    (await hers.context().cookies()).filter(c => c.value),
    []
  )
  await enter(hers, 'eve', 'secret')
  await hers.context().clearCookies()
  await wake(hers)
  await sees('log in again', hers)
  await hers.context().close()
})

test('by keyboard alone', async () => {
  const at = await open()
  await at.waitForSelector('input[name=name]:focus')
  await at.keyboard.type('adm')
  await at.keyboard.press('Tab')
  await at.keyboard.type('pass')
  await at.keyboard.press('Enter')
  await at.waitForSelector('main[data-drawn=overview]')
  await at.keyboard.press('g')
  await at.keyboard.press('j')
  await at.waitForSelector('main[data-drawn=jobs]')
  await at.keyboard.press('/')
  await at.keyboard.type(await jobOf('page-03'))
  await at.keyboard.press('Enter')
  await until('one row', async () => (await rows(at).count()) === 1)
  await at.keyboard.press('Escape')
  await at.keyboard.press('j')
  const focused = () => at.evaluate(() => document.activeElement.textContent)
  assert.equal(await focused(), 'page-03')
  const outline = await at.evaluate(() => getComputedStyle(document.activeElement).outlineStyle)
  assert.equal(outline, 'solid')
  await at.keyboard.press('Enter')
  await at.waitForSelector('main[data-drawn=job]')
  await at.keyboard.press('Escape')
  await at.waitForSelector('main[data-drawn=jobs]')
  await show('#/jobs?limit=25', at)
  await until('rows', async () => (await rows(at).count()) === 25)
  const names = await at.locator('main tbody th').allInnerTexts()
  for (const [key, want] of [
    ['j', 0],
    ['ArrowDown', 1],
    ['j', 2],
    ['k', 1],
    ['ArrowUp', 0],
    ['k', 0]
  ]) {
    await at.keyboard.press(key)
    assert.equal(await focused(), names[want], key)
  }
  await Promise.all([at.waitForResponse(/_scheduler\/jobs/), wake(at)])
  await pause(200) // the rows are drawn again
  assert.equal(await focused(), names[0])
  await at.keyboard.press('n')
  await until('the next page', async () => (await at.locator('.range').innerText()).startsWith('26–50'))
  await at.keyboard.press('p')
  await until('the first page', async () => (await at.locator('.range').innerText()).startsWith('1–25'))
  await at.keyboard.press('?')
  await sees('next row', at)
  await at.keyboard.press('Escape')
  assert.equal(await at.locator('dialog[open]').count(), 0)
  await at.context().close()
})

test('light and dark, as the system says or the user', async () => {
  const colours = []
  for (const colorScheme of ['light', 'dark']) {
    const at = await open({ colorScheme })
    const back = () => at.evaluate(() => getComputedStyle(document.body).backgroundColor)
    colours.push(await back())
    await enter(at, 'adm', 'pass')
    await at.waitForSelector('main[data-drawn]')
    await shoot(`overview-${colorScheme}`, at)
    await at.keyboard.press('t') // light
    await at.keyboard.press('t') // dark
    assert.equal(await back(), 'rgb(15, 20, 26)')
    await at.reload()
    assert.equal(await back(), 'rgb(15, 20, 26)')
    await at.context().close()
  }
  assert.deepEqual(colours, ['rgb(246, 247, 249)', 'rgb(15, 20, 26)'])
})

test('never two requests of a kind at once, and none while the page is hidden', async () => {
  const at = await open()
  await enter(at, 'adm', 'pass')
  let underWay = 0
  let most = 0
  let seen = 0
  await at.route(/_scheduler\/jobs/, async route => {
    most = Math.max(most, ++underWay)
    seen++
    await pause(700)
    await route.continue()
    underWay--
  })
  await show('#/jobs', at)
  for (let i = 0; i < 8; i++) {
    await wake(at)
    await pause(200)
  }
  assert.equal(most, 1)
  await at.evaluate(() => {
    Object.defineProperty(document, 'hidden', { value: true, configurable: true })
    document.dispatchEvent(new Event('visibilitychange'))
  })
  await pause(900) // the look that was under way
  const then = seen
  await pause(3500)
  assert.equal(seen, then)
  await at.evaluate(() => {
    delete document.hidden
    document.dispatchEvent(new Event('visibilitychange'))
  })
  await until('looks of a page that is back', () => seen > then)
  await at.context().close()
})

test('refused documents, and a node of the fleet that is lost', async () => {
  const at = await open()
  const id = await jobOf('runs')
  const refused = i => ({
    id: `${hostile}${i}`,
    rev: '1-a',
    status: 403,
    error: 'forbidden',
    reason: hostile,
    first: '2026-03-01T10:00:00Z',
    last: '2026-03-01T10:00:00Z',
    attempts: 3
  })
  await at.route(/_scheduler\/jobs\/[^/]+$/, async route => route.fulfill({ json: { ...(await (await route.fetch()).json()), refused: 2000 } }))
  await at.route(/\/failures/, route => {
    const second = route.request().url().includes('cursor=more')
    route.fulfill({
      json: {
        total_rows: 2000,
        stored: 51,
        failures: second ? [refused(50)] : Array.from({ length: 50 }, (_, i) => refused(i)),
        cursor: second ? null : 'more'
      }
    })
  })
  let lost = false
  await at.route(/_scheduler\/nodes/, async route => {
    const answer = await (await route.fetch()).json()
    const second = { ...answer.nodes[0], name: 'relay2', status: lost ? 'lost' : 'up', last_seen: '2026-03-01T10:00:00Z' }
    route.fulfill({ json: { ...answer, nodes: [...answer.nodes, second] } })
  })
  await enter(at, 'adm', 'pass')
  await show(`#/job/${encodeURIComponent(id)}`, at)
  await sees('2,000 refused, 51 listed', at)
  const listed = at.locator('[data-key=refusals] tbody tr')
  assert.equal(await listed.count(), 50)
  await at.getByRole('link', { name: 'Next' }).click()
  await until('the second page', async () => (await listed.count()) === 1)
  assert.match(await listed.innerText(), /<img src=x.*50/)
  await shoot('refused-documents', at)
  lost = true
  await pause(1600) // the last answer is old
  await wake(at)
  await at
    .locator('#lost')
    .getByText(/Node relay2 is lost since/)
    .waitFor()
  await at.locator('#lost').getByRole('button', { name: 'Close' }).click()
  await pause(1600)
  await Promise.all([at.waitForResponse(/_scheduler\/nodes/), wake(at)])
  assert.equal(await at.locator('#lost .banner').count(), 0)
  await at.context().close()
})

test('below a path of a proxy', async () => {
  const outside = []
  proxy = http.createServer((request, answer) => {
    if (!request.url.startsWith('/relay/')) {
      outside.push(request.url)
      answer.writeHead(404).end()
      return
    }
    const on = http.request(
      { port: service.port, host: '127.0.0.1', method: request.method, headers: request.headers, path: request.url.slice('/relay'.length) },
      from => {
        answer.writeHead(from.statusCode, from.headers)
        from.pipe(answer)
      }
    )
    on.on('error', () => answer.writeHead(502).end('<html>'))
    request.pipe(on)
  })
  await new Promise(resolve => proxy.listen(0, '127.0.0.1', resolve))
  const at = await open({}, `http://127.0.0.1:${proxy.address().port}/relay/_dashboard`)
  assert.match(at.url(), /\/relay\/_dashboard\/$/)
  await enter(at, 'adm', 'pass')
  const places = ['jobs', 'accounts', 'servers', 'nodes', 'follows', 'overview', `job/${encodeURIComponent(await jobOf('runs'))}`]
  for (const place of places) await show(`#/${place}`, at)
  await sees('The job', at)
  assert.deepEqual(outside, [])
  await at.context().close()
})

test('a node that dies, and comes back', async () => {
  await show('#/jobs')
  await until('rows', async () => (await rows().count()) === 50)
  await kill()
  await page
    .locator('[role=alert]')
    .getByText(/No answer since \d\d:\d\d:\d\d/)
    .waitFor()
  assert.equal(await rows().count(), 50)
  await sees('the node cannot be reached')
  await shoot('away')
  await start()
  await sees('The node answers again')
  assert.equal(await page.locator('#away .banner').count(), 0)
  await until('the page as before', async () => (await rows().count()) === 50 && !(await page.locator('main.stale').count()))
})

test('a login while the node is away', async () => {
  const at = await open()
  await at.waitForSelector('input[name=name]')
  await kill()
  await at.evaluate(() => {
    location.hash = '#/nodes'
  })
  await at.fill('input[name=name]', 'adm')
  await at.keyboard.press('Enter')
  await sees('the node cannot be reached', at)
  await start()
  await enter(at, 'adm', 'pass')
  await row('relay1', at).waitFor()
  await at.context().close()
})

test('nothing went wrong on the way', () => assert.deepEqual(troubles, []))
