// A poller looks again and again, one look after the other: never two at once. It waits longer after each look that
// fails, and not at all while the page is hidden.
import { Silence } from './api.js'

const longestPause = 30000

export class Poller {
  // look is what is done, with a signal that gives it up; every is the pause between two looks, in milliseconds. told
  // hears after each look the error, if any, and how long it is until the next.
  constructor(look, every, told) {
    Object.assign(this, { look, every, told, failures: 0, timer: 0, busy: false, again: false, over: false })
    this.control = new AbortController()
    this.awake = () => {
      if (!document.hidden) this.now()
    }
    document.addEventListener('visibilitychange', this.awake)
    this.now()
  }

  // now looks at once, or once more when the present look is over.
  async now() {
    clearTimeout(this.timer)
    if (this.over) return
    if (this.busy) {
      this.again = true
      return
    }
    this.busy = true
    let failure = null
    try {
      await this.look(this.control.signal)
    } catch (e) {
      failure = e
    }
    this.busy = false
    if (this.over) return
    this.failures = failure instanceof Silence ? this.failures + 1 : 0
    const pause = this.failures ? Math.min(longestPause, 500 * 2 ** this.failures) : this.every
    this.told(failure, pause)
    if (this.again) {
      this.again = false
      return this.now()
    }
    if (!document.hidden && !this.over) this.timer = setTimeout(() => this.now(), pause)
  }

  stop() {
    this.over = true
    clearTimeout(this.timer)
    this.control.abort()
    document.removeEventListener('visibilitychange', this.awake)
  }
}
