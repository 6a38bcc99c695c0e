package spec

import "couchrelay/core/ejson"

// refuseUnhonoured refuses the options that CouchDB honors and couchrelay does not yet. None is ever ignored:
// every other field that parses is honored.
func (p *parser) refuseUnhonoured() {
	for _, o := range p.erlangProps("ibrowse_options") {
		if o.name != "prefer_ipv6" || o.value != "true" && o.value != "false" {
			p.notSupported("`ibrowse_options` other than [{prefer_ipv6, true}] and [{prefer_ipv6, false}]")
		}
	}
	for _, side := range []string{"source", "target"} {
		endpoint, _ := p.body.Get(side)
		auth, _ := endpoint.Get("auth")
		for _, plugin := range auth.Members {
			if plugin.Name != "basic" && plugin.Name != "bearer" {
				p.notSupported("`" + side + ".auth` other than `basic` and `bearer`")
			}
		}
	}
}

func (p *parser) notSupported(what string) {
	p.fail(NotSupported, what+" is not supported yet", "")
}

// erlangProps reads a field with Erlang options.
func (p *parser) erlangProps(name string) []erlangProp {
	v, has := p.body.Get(name)
	if !has {
		return nil
	}
	props, err := parseErlangProps(v.Text)
	if v.Kind != ejson.String {
		p.badRequest("parameter `%s` must be a string", name)
	} else if err != nil {
		p.badRequest("parameter `%s`: %v", name, err)
	}
	return props
}
