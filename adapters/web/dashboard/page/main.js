// The frame of the page: who uses it, which view it shows, whether the node answers.
import { h, show } from './dom.js'
import { Refusal, Silence, forget, login, logout, readSession, session } from './api.js'
import { Poller } from './poll.js'
import { go, here, to } from './route.js'
import { away, back, tell, watch } from './banner.js'
import { listen } from './keys.js'
import { overview } from './overview.js'
import { jobs } from './jobs.js'
import { job } from './job.js'
import { accounts } from './accounts.js'
import { servers } from './servers.js'
import { nodes } from './nodes.js'
import { follows } from './follows.js'
import { nodesOf, statsOf } from './stats.js'

// A view reads what it shows, and draws it: both know nothing of the rest of the page. Views that are for admins say so.
const views = { overview, jobs, job, accounts, servers, nodes, follows }
const shown = ['overview', 'jobs', 'accounts', 'servers', 'nodes', 'follows']

const main = document.getElementById('main')
let poller = null
let current = null // the name of the view that is drawn
let opened = 0 // how many places the user has been to

const themes = ['system', 'light', 'dark']
const theme = () => document.documentElement.dataset.theme ?? 'system'

function nextTheme() {
  const next = themes[(themes.indexOf(theme()) + 1) % themes.length]
  if (next === 'system') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = next
  try {
    if (next === 'system') localStorage.removeItem('couchrelay-theme')
    else localStorage.setItem('couchrelay-theme', next)
  } catch {
    /* it lasts until the page is closed */
  }
  frame()
}

// frame draws what is around the view.
function frame() {
  const at = here().name === 'job' ? 'jobs' : here().name
  show(
    document.getElementById('views'),
    !session.known
      ? null
      : shown.map(name =>
          h(
            'a',
            {
              href: to(name),
              'aria-current': name === at && 'page',
              'data-key': name,
              class: views[name].admin && !session.admin ? 'closed' : null,
              title: views[name].admin && !session.admin ? 'for admins of the server' : null
            },
            views[name].title
          )
        )
  )
  show(
    document.getElementById('account'),
    h(
      'button',
      { class: 'quiet', 'data-key': 'theme', onclick: nextTheme, title: 'Light, dark, or as the system says' },
      { system: '◐ System', light: '○ Light', dark: '● Dark' }[theme()]
    ),
    h(
      'button',
      {
        class: 'quiet',
        'data-key': 'keys',
        onclick: () => listening.help(),
        'aria-keyshortcuts': '?',
        title: 'Keys (?)'
      },
      '?'
    ),
    session.known &&
      h(
        'span',
        { 'data-key': 'user', class: 'user' },
        session.name ?? 'no login needed',
        h('span', { class: 'role' }, session.admin ? 'admin' : session.monitor ? 'metrics' : 'user')
      ),
    session.name !== null && h('button', { 'data-key': 'logout', onclick: leave }, 'Log out')
  )
}

async function leave() {
  try {
    await logout()
  } catch {
    /* the form comes all the same, and the cookie ends by itself */
  }
  Object.assign(session, { name: null, roles: [], admin: false, monitor: false, known: false })
  askForLogin('You are logged out.')
}

// askForLogin shows the form, in the place of the view.
function askForLogin(why) {
  poller?.stop()
  remembering?.stop()
  poller = current = null
  back()
  frame()
  document.title = 'Log in · couchrelay'
  const failure = h('p', { class: 'wrong', role: 'alert' })
  const enter = async event => {
    event.preventDefault()
    const { name, password, submit } = event.target.elements
    submit.disabled = true
    try {
      await login(name.value, password.value)
      await readSession()
      password.value = ''
      if (session.known) return start()
      failure.textContent = 'The login was accepted, but its cookie did not stay: does the browser take cookies here?'
    } catch (e) {
      failure.textContent = e instanceof Refusal || e instanceof Silence ? e.message : String(e)
      password.select()
    } finally {
      submit.disabled = false
    }
  }
  main.replaceChildren(
    h(
      'form',
      { class: 'login', method: 'post', onsubmit: enter },
      h('h1', null, 'Log in'),
      why && h('p', null, why),
      h(
        'label',
        null,
        'Name',
        h('input', { name: 'name', autocomplete: 'username', autocapitalize: 'none', required: true })
      ),
      h(
        'label',
        null,
        'Password',
        h('input', { name: 'password', type: 'password', autocomplete: 'current-password' })
      ),
      failure,
      h('button', { name: 'submit', class: 'main' }, 'Log in')
    )
  )
  main.querySelector('input').focus()
}

// open shows the view of the present place.
function open() {
  if (!session.known) return
  const place = here()
  if (!views[place.name]) return location.replace(to(session.monitor ? 'overview' : 'jobs'))
  const view = views[place.name]
  opened++
  poller?.stop()
  poller = null
  frame()
  const fresh = current !== place.name + place.id
  current = place.name + place.id
  document.title = `${place.id ? (view.named?.(place.id) ?? view.title) : view.title} · couchrelay`
  if (view.admin && !session.admin && !(view.monitor && session.monitor)) return refuse(view)
  if (fresh) {
    show(main, h('p', { class: 'loading' }, 'Reading …'))
    main.scrollTop = 0
    if (document.activeElement?.tagName !== 'A' || place.name === 'job') main.focus({ preventScroll: true })
  }
  let data
  const page = {
    place,
    draw: () => {
      if (data !== undefined) show(main, ...view.draw(data, page))
    },
    refresh: () => poller?.now(),
    tell
  }
  poller = new Poller(
    async signal => {
      const read = await view.read(place, signal)
      if (signal.aborted) return
      data = read
      page.draw()
      main.dataset.drawn = place.name
    },
    view.every,
    (failure, pause) => looked(failure, pause, view)
  )
}

// looked hears how a look went.
function looked(failure, pause, view) {
  if (failure instanceof Silence) {
    main.classList.add('stale')
    return away(failure.message, pause)
  }
  main.classList.remove('stale')
  back()
  if (failure === null) return
  if (failure instanceof Refusal && failure.status === 401) return askForLogin('The session is over: log in again.')
  if (!(failure instanceof Refusal)) console.error(failure)
  main.dataset.drawn = here().name
  show(
    main,
    h(
      'section',
      { class: 'empty', role: 'alert' },
      h('p', { class: 'what' }, failure.message),
      failure.status === 404 && view === job
        ? h('p', null, h('a', { href: to('jobs') }, 'All jobs'))
        : h('p', null, h('a', { href: to(here().name) }, 'The same view without filters'))
    )
  )
}

// refuse tells a user that a view is not for it.
function refuse(view) {
  show(
    main,
    h(
      'section',
      { class: 'empty' },
      h('p', { class: 'what' }, `“${view.title}” is shown to admins of the server only.`),
      h(
        'p',
        null,
        `You are logged in as ${session.name}, who is none. Your own jobs are `,
        h('a', { href: to('jobs') }, 'here'),
        '.'
      )
    )
  )
  main.dataset.drawn = here().name
}

const listening = listen({
  main,
  nextTheme,
  up: () => here().name === 'job' && (opened > 1 ? history.back() : go('jobs'))
})

let remembering = null

// remember reads what is kept, and watched, whatever view is open.
async function remember() {
  await statsOf()
  if (session.admin) watch((await nodesOf()).nodes)
}

// start begins with the session of a user.
function start() {
  main.replaceChildren()
  forget()
  remembering?.stop()
  remembering = session.monitor ? new Poller(remember, 5000, () => {}) : null
  open()
}

// begin finds out who the user is, as soon as the node answers.
function begin() {
  const asking = new Poller(
    async () => {
      await readSession()
      asking.stop()
      back()
      if (session.known) start()
      else askForLogin('')
    },
    1000,
    failure => {
      if (failure) away(failure.message, 1000)
    }
  )
}

addEventListener('hashchange', open)
frame()
begin()
