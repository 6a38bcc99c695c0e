// Package figures draws what runs and sweeps have measured, as SVG or PNG, for papers. Figures are as wide as a
// column and have no title, since papers have captions. Colours are those of Okabe and Ito, which colour-blind
// readers tell apart; every colour also has a dash and a marker of its own, for prints in black and white. Equal
// data give equal bytes.
//
// A figure is made in two steps. A Chart, Bars or Gantt says what is to be seen, in plain numbers; each checks
// itself and draws itself. Others make those of what was measured.
package figures
