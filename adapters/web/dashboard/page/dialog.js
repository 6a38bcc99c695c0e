// Questions and help, in a dialog of the browser: it keeps the focus inside and closes with Escape.
import { h } from './dom.js'

const dialog = document.getElementById('dialog')

function open(...children) {
  const before = document.activeElement
  dialog.replaceChildren(...children)
  dialog.returnValue = ''
  dialog.showModal()
  return new Promise(resolve => {
    dialog.addEventListener(
      'close',
      () => {
        resolve(dialog.returnValue)
        if (before?.isConnected) before.focus()
      },
      { once: true }
    )
  })
}

// confirm asks whether something is to be done, and for the values of fields. It returns those, or null.
export async function confirm({ title, text, fields = [], act, danger }) {
  const inputs = fields.map(f =>
    h('input', { name: f.name, maxlength: f.max ?? 500, placeholder: f.hint, value: f.value ?? '' })
  )
  const form = h(
    'form',
    { method: 'dialog' },
    h('h2', { id: 'dialog-title' }, title),
    text.map(line => h('p', null, line)),
    fields.map((f, i) => h('label', null, f.title, inputs[i])),
    h(
      'div',
      { class: 'buttons' },
      h('button', { value: '', formnovalidate: true, autofocus: danger }, 'Leave it'),
      h('button', { value: 'yes', class: danger ? 'danger' : 'main' }, act)
    )
  )
  // Enter in a field means yes, unless something would be lost.
  form.onkeydown = event => {
    if (event.key === 'Enter' && event.target.tagName === 'INPUT') {
      event.preventDefault()
      if (!danger) dialog.close('yes')
    }
  }
  const open_ = open(form)
  if (!danger && inputs.length > 0) inputs[0].focus()
  if ((await open_) !== 'yes') return null
  return Object.fromEntries(inputs.map(input => [input.name, input.value.trim()]))
}

// inform shows something to read.
export const inform = (title, ...children) =>
  open(
    h(
      'form',
      { method: 'dialog' },
      h('h2', { id: 'dialog-title' }, title),
      children,
      h('div', { class: 'buttons' }, h('button', { class: 'main', autofocus: true }, 'Close'))
    )
  )

export const isOpen = () => dialog.open
