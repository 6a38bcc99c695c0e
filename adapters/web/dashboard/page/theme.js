// Light or dark, before anything is drawn: as the system says, unless the user chose one of the two.
'use strict'
try {
  const chosen = localStorage.getItem('couchrelay-theme')
  if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen
} catch {
  /* without storage the system decides */
}
