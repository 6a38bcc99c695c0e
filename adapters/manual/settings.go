package manual

import (
	"fmt"
	"strings"
)

// syntax is what the reference says of configuration files, in both of its forms.
const syntax = "The configuration is CouchDB's INI: sections in brackets, and in them lines KEY = VALUE. A line that " +
	"begins with ; is a comment, as is what follows \" ;\" in a line, also inside a password. Files are read in the " +
	"order of --config, and later ones win; what requests to _config have set, in NAME.local.ini, wins over them, " +
	"and the environment and flags win over both. A key that does not exist is an error that names the nearest one. " +
	"Sections and keys that concern a database server, as in CouchDB's own files, are skipped with a line in the log."

// effects is what the reference says of the column of that name.
const effects = "A change takes effect at once, when a request to _config makes it or SIGHUP has the files read " +
	"again; or at once on all nodes that share a store; or at the next start."

// SettingsPage is the page of the configuration's files.
func (p *Program) SettingsPage() string {
	r := &roff{}
	name := p.App.Name + ".ini"
	p.title(r, name, "5")
	r.section("NAME")
	r.raw(`%s \- configuration of %s`, escaped(name), escaped(p.App.Name))
	r.section("DESCRIPTION")
	r.paragraphs(syntax + "\n\n" + effects + "\n\nThe values in force, and where each is from, are printed by\n\n" +
		"    " + p.App.Name + " config --config FILE")
	r.section("SECTIONS")
	for _, section := range p.sections() {
		r.raw(`.SS "[%s]"`, escaped(section))
		for _, s := range p.Settings {
			if s.Section == section {
				r.item(bold(s.Key), s.describe())
			}
		}
	}
	r.entries("ENVIRONMENT", p.Environment, p.App.Node)
	r.entries("FILES", p.Files, p.App.Node)
	r.section("SEE ALSO")
	r.raw("%s(1),\n%s(1),\n%s(1)", bold(p.App.Name), bold(p.App.Name+"-config"), bold(p.App.Name+"-serve"))
	return r.String()
}

// describe says all that is known of a key.
func (s Setting) describe() string {
	text := s.Says + " It takes " + s.Takes + "."
	if s.Default != "" {
		text += " Default: " + s.Default + "."
	}
	if s.Effect != "" {
		text += " A change takes effect " + s.Effect + "."
	}
	return text
}

// Markdown is the reference of all keys.
func (p *Program) Markdown() string {
	var b strings.Builder
	b.WriteString("# Configuration\n\n")
	fmt.Fprintf(&b, "<!-- Printed by `%s config --markdown`: change the code, not this file. -->\n\n", p.App.Name)
	fmt.Fprintf(&b, "%s\n\n%s\n\n", syntax, effects)
	for _, section := range p.sections() {
		fmt.Fprintf(&b, "## [%s]\n\n", section)
		b.WriteString("| key | what it sets | takes | default | takes effect |\n|---|---|---|---|---|\n")
		for _, s := range p.Settings {
			if s.Section == section {
				fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", code(s.Key), cell(s.Says), cell(s.Takes),
					code(s.Default), s.Effect)
			}
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// cell is a text in a table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`, "\n", " ").Replace(text)
}

// code is a text that is to be written as it is.
func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + strings.ReplaceAll(text, "|", `\|`) + "`"
}
