package spec

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"couchrelay/core/ejson"
	"couchrelay/core/peer"
	"couchrelay/core/schedule"

	"github.com/go-json-experiment/json/jsontext"
)

// ParseDocument reads the body of a document of a replicator database. Its error is an *Error. It takes the
// body parsed, since the job store needs other members of it.
func ParseDocument(body ejson.Value, c Config) (*Replication, error) {
	p, err := newParser(body, c, "Document must be a JSON object")
	if err != nil {
		return nil, err
	}
	r := &Replication{
		DocID: p.text("_id"), Owner: p.text("owner"), User: p.userCtx(),
		Orders: Orders{Paused: p.boolean("paused", false)},
	}
	if p.boolean("cancel", false) {
		p.fail(BadRequest, "parameter `cancel` has no effect in a document",
			"delete the document to stop its replication")
	}
	p.options(r)
	r.Unknown = unknown(p.body, documentFields)
	p.endpoints(r)
	return p.result(r)
}

// ParseRequest reads the body of POST /_replicate. If it asks to cancel a replication by its id, source and
// target are not read and stay empty. Its error is an *Error.
func ParseRequest(raw []byte, c Config) (*Replication, error) {
	body, err := ejson.Parse(raw)
	if err != nil {
		return nil, &Error{Kind: BadRequest, Reason: err.Error()}
	}
	p, err := newParser(body, c, "Request body must be a JSON object")
	if err != nil {
		return nil, err
	}
	r := &Replication{}
	p.options(r)
	r.Unknown = unknown(p.body, requestFields)
	if r.Cancel = p.boolean("cancel", false); r.Cancel {
		r.CancelID = p.cancelID()
	}
	if r.CancelID == "" {
		p.endpoints(r)
	}
	return p.result(r)
}

// parser reads fields of body. It keeps the first mistake in err and goes on, so that callers check once, at
// the end; the values that its methods return after a mistake mean nothing.
type parser struct {
	body   ejson.Value
	config Config
	err    error
}

func newParser(body ejson.Value, c Config, notObject string) (*parser, error) {
	if body.Kind != ejson.Object {
		return nil, &Error{Kind: BadRequest, Reason: notObject}
	}
	return &parser{body: body, config: c}, nil
}

func (p *parser) result(r *Replication) (*Replication, error) {
	if p.err != nil {
		return nil, p.err
	}
	return r, nil
}

func (p *parser) fail(kind Kind, reason, detail string) {
	if p.err == nil {
		p.err = &Error{kind, reason, detail}
	}
}

func (p *parser) badRequest(format string, args ...any) {
	p.fail(BadRequest, fmt.Sprintf(format, args...), "")
}

// options reads the fields that concern neither one endpoint nor the document.
func (p *parser) options(r *Replication) {
	c := p.config
	r.Continuous = p.boolean("continuous", false)
	r.CreateTarget = p.boolean("create_target", false)
	if params := p.createTargetParams(); r.CreateTarget {
		r.CreateTargetParams = params
	}
	r.WinningRevsOnly = p.boolean("winning_revs_only", false)
	r.SinceSeq = sinceSeq(p)
	r.UseCheckpoints = p.boolean("use_checkpoints", c.UseCheckpoints)
	r.CheckpointInterval = p.milliseconds("checkpoint_interval", c.CheckpointInterval)
	r.UseBulkGet = p.boolean("use_bulk_get", c.UseBulkGet)
	r.WorkerProcesses = p.integer("worker_processes", c.WorkerProcesses, 1, maxWorkers, "")
	if _, bounded := p.body.Get("worker_processes"); !bounded {
		r.MaxWorkers = c.maxWorkers()
	}
	r.WorkerBatchSize = p.integer("worker_batch_size", c.WorkerBatchSize, 1, maxBatch, "")
	r.Weight = weightOf(p)
	r.OnRefusal = onRefusal(p)
	r.Filter = p.filter()
	p.refuseUnhonoured()
}

// Upper bounds of numbers, far above useful values.
const (
	maxWorkers      = 1000
	maxBatch        = 100_000
	maxConnections  = 10_000
	maxRetries      = 1000
	maxMilliseconds = 24 * 60 * 60 * 1000
	maxName         = 4096 // bytes, of a user
)

func (p *parser) boolean(name string, otherwise bool) bool {
	v, has := p.body.Get(name)
	if !has {
		return otherwise
	}
	if v.Kind != ejson.True && v.Kind != ejson.False {
		p.badRequest("parameter `%s` must be a boolean", name)
	}
	return v.Kind == ejson.True
}

// integer reads a number, or a string of digits. An error tells the unit as it is given here.
func (p *parser) integer(name string, otherwise, least, most int, unit string) int {
	v, has := p.body.Get(name)
	if !has {
		return otherwise
	}
	// The text of a value that is neither a string nor a number is empty.
	i, err := strconv.Atoi(v.Text)
	if err != nil || i < least || i > most {
		p.badRequest("parameter `%s` must be an integer from %d to %d%s", name, least, most, unit)
	}
	return i
}

// weightOf is 0 where it is the default, as it is for jobs that were made before there were weights.
func weightOf(p *parser) int64 {
	v, has := p.body.Get("weight")
	if !has {
		return 0
	}
	w, err := strconv.ParseInt(v.Text, 10, 64)
	if v.Kind != ejson.Number || err != nil || w < schedule.MinWeight || w > schedule.MaxWeight {
		p.badRequest("parameter `weight` must be an integer from %d to %d, and is %s", schedule.MinWeight,
			schedule.MaxWeight, shown(v))
	}
	if w == schedule.DefaultWeight {
		return 0
	}
	return w
}

// shown is a value as messages show it.
func shown(v ejson.Value) string {
	const most = 40 // bytes
	text := string(v.Append(nil))
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

// onRefusal reads the policy for documents that the target refuses.
func onRefusal(p *parser) OnRefusal {
	v, has := p.body.Get("on_refusal")
	switch policy := OnRefusal(v.Text); {
	case !has, v.Kind == ejson.String && policy == "skip":
		return SkipRefused
	case v.Kind == ejson.String && (policy == FailRefused || policy == RetryRefused):
		return policy
	}
	p.badRequest("parameter `on_refusal` must be \"skip\", \"fail\" or \"retry\"")
	return SkipRefused
}

func (p *parser) milliseconds(name string, otherwise time.Duration) time.Duration {
	ms := p.integer(name, int(otherwise.Milliseconds()), 1, maxMilliseconds, " (milliseconds)")
	return time.Duration(ms) * time.Millisecond
}

// text reads a string that may also be null.
func (p *parser) text(name string) string {
	v, has := p.body.Get(name)
	if has && v.Kind != ejson.String && v.Kind != ejson.Null {
		p.badRequest("parameter `%s` must be a string", name)
	}
	return v.Text
}

// value reads any JSON. It returns nil if the field is absent.
func (p *parser) value(name string) jsontext.Value {
	v, has := p.body.Get(name)
	if !has {
		return nil
	}
	p.checkNumbers(name, v)
	return v.Append(nil)
}

// sinceSeq reads where to begin: a sequence in the form in which the source's server gives it. "now" is none: it
// would be another place at each start, and what was changed after a run without a checkpoint would be left out. Where
// sequences are numbers, they count changes; strings and arrays are each server's own.
func sinceSeq(p *parser) jsontext.Value {
	v, has := p.body.Get("since_seq")
	counts := v.IsInteger() && !strings.HasPrefix(v.Text, "-")
	ok := v.Kind == ejson.String && v.Text != "now" && v.Text != "" || counts || v.Kind == ejson.Array
	if has && !ok {
		p.badRequest("parameter `since_seq` must be a string, an array or an integer from 0, a sequence that the "+
			"source gave, such as its update_seq, and is %s", shown(v))
	}
	return p.value("since_seq")
}

// maxDigits bounds integers in fields that may hold any JSON: the time to convert one grows with the square
// of its length.
const maxDigits = 1000

// checkNumbers refuses numbers that CouchDB cannot hold, for which it has no replication id, and absurdly
// long ones.
func (p *parser) checkNumbers(name string, v ejson.Value) {
	if v.IsInteger() && len(v.Text) > maxDigits {
		p.badRequest("parameter `%s` has a number of more than %d digits", name, maxDigits)
	} else if _, err := strconv.ParseFloat(v.Text, 64); v.Kind == ejson.Number && !v.IsInteger() && err != nil {
		p.badRequest("parameter `%s` has a number beyond the range of a double", name)
	}
	for _, e := range v.Elems {
		p.checkNumbers(name, e)
	}
	for _, m := range v.Members {
		p.checkNumbers(name, m.Value)
	}
}

func (p *parser) userCtx() (user UserCtx) {
	v, has := p.body.Get("user_ctx")
	if !has {
		return user
	}
	name, hasName := v.Get("name")
	roles, hasRoles := v.Get("roles")
	ok := v.Kind == ejson.Object && (!hasName || name.Kind == ejson.String || name.Kind == ejson.Null) &&
		(!hasRoles || roles.Kind == ejson.Array)
	user.Name = name.Text
	for _, role := range roles.Elems {
		ok = ok && role.Kind == ejson.String
		user.Roles = append(user.Roles, role.Text)
	}
	if len(name.Text) > maxName {
		p.badRequest("parameter `user_ctx.name` is longer than %d bytes", maxName)
	}
	if !ok {
		p.badRequest("parameter `user_ctx` must be an object with a string or null `name` " +
			"and an array of strings `roles`")
	}
	return user
}

// createTargetParams reads an object whose values can be written into a query string.
func (p *parser) createTargetParams() (params []peer.Param) {
	v, has := p.body.Get("create_target_params")
	if has && v.Kind != ejson.Object {
		p.badRequest("parameter `create_target_params` must be a JSON object")
	}
	for _, m := range v.Members {
		if m.Value.Kind == ejson.Array || m.Value.Kind == ejson.Object || m.Value.Kind == ejson.Null {
			p.badRequest("parameter `create_target_params` must have strings, numbers or booleans as values")
		}
		params = append(params, peer.Param{Name: m.Name, Value: plainText(m.Value)})
	}
	return params
}

// plainText returns a string without its quotes, and other values as JSON.
func plainText(v ejson.Value) string {
	if v.Kind == ejson.String {
		return v.Text
	}
	return string(v.Append(nil))
}

// cancelID reads the id of the replication to cancel, a field with three names. The first one in document
// order counts.
func (p *parser) cancelID() string {
	for _, m := range p.body.Members {
		if m.Name == "_local_id" || m.Name == "replication_id" || m.Name == "id" {
			if m.Value.Kind != ejson.String || m.Value.Text == "" {
				p.badRequest("parameter `%s` must be a string, the id of a replication", m.Name)
			}
			return m.Value.Text
		}
	}
	return ""
}
