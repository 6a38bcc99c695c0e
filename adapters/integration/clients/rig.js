'use strict'
// What the tests of clients have in common. SERVER is the URL of the server under test with an admin's name and
// password, DATABASES that of a server with databases to replicate.
const slash = url => url.endsWith('/') ? url : url + '/'
exports.server = slash(process.env.SERVER)
exports.databases = slash(process.env.DATABASES)
const url = new URL(exports.server)
exports.login = { username: url.username, password: url.password }
url.username = url.password = ''
exports.anonymous = url.href

let last = 0
// named returns a name that no other call returns.
exports.named = prefix => `${prefix}-${Date.now()}-${++last}`

// until waits until an asynchronous condition holds.
exports.until = async (what, holds) => {
  for (const end = Date.now() + 30000; !await holds();) {
    if (Date.now() > end) throw new Error(`waited in vain for ${what}`)
    await new Promise(resolve => setTimeout(resolve, 50))
  }
}
