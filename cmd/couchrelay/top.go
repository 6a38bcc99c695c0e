package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"couchrelay/adapters/terminal"
	"couchrelay/adapters/top"

	"golang.org/x/term"
)

// topCommand shows a service as it is, live.
type topCommand struct {
	remote
	choice
	Database string        `help:"Only jobs of this replicator database." placeholder:"NAME"`
	Interval time.Duration `help:"${top_interval}" default:"2s" placeholder:"TIME"`
	Sort     string        `help:"${top_sort}" enum:"${top_sorts}" default:"state" placeholder:"COLUMN"`
	Once     bool          `help:"Print one picture, and end."`
}

// Bounds of --interval: each answer costs the service a page of rows.
const shortestInterval, longestInterval = 500 * time.Millisecond, time.Hour

// Help is kong's.
func (topCommand) Help() string {
	return "Shows jobs, nodes and rates of a service, live. Keys sort, choose, explain, pause, resume, retry, reset " +
		"and cancel jobs; ? tells them, too. However many jobs there are, a page of 100 is read at a time. A service " +
		"that goes away may come back. Without a terminal, or on one that is dumb, one picture is printed.\n\n" +
		"Keys:\n\n    " + strings.ReplaceAll(top.Keys, "\n", "\n    ") + examples(
		"Look at the service of this machine:", "couchrelay top",
		"Only what is in trouble at one server, the most errors first:",
		"couchrelay top --state crashing,paused --server-host db1.example.com --sort errors",
		"An object a minute, for a program:", "couchrelay top --json --interval 1m")
}

// Validate is kong's.
func (c *topCommand) Validate() error {
	if c.Interval < shortestInterval || c.Interval > longestInterval {
		return fmt.Errorf("--interval %s: must be from %s to %s", c.Interval, shortestInterval, longestInterval)
	}
	return nil
}

// Run asks once before all else: a service that is not there, or refuses the user, is an error as it is for other
// commands.
func (c *topCommand) Run(w *window) error {
	filter := top.Filter{State: strings.Join(c.State, ","), Server: c.ServerHost, User: c.User, Error: c.Error,
		Node: c.Node, Database: c.Database}
	m := top.New(c.shown(), c.Interval, filter, c.Sort)
	round := m.Tick(time.Now())[0].Ask
	answers, err := c.send(round)
	if err != nil {
		return err
	}
	m.Take(round.ID, answers, time.Now())
	kind := os.Getenv("TERM")
	onTerminal := w.to == io.Writer(os.Stdout) && w.width > 0 && kind != "dumb" && kind != ""
	colours := onTerminal && os.Getenv("NO_COLOR") == ""
	switch {
	case c.JSON:
		return c.objects(w, m)
	case c.Once || !onTerminal || !term.IsTerminal(int(os.Stdin.Fd())):
		for _, line := range m.View(w.width, 0, time.Now()) {
			text := strings.TrimRight(line.String(), " ")
			if onTerminal {
				text = line.Styled(colours)
			}
			if _, err := fmt.Fprintln(w.to, text); err != nil {
				return err
			}
		}
		return nil
	}
	return newViewer(c, m, colours).live(os.Stdin, os.Stdout)
}

// send sends the requests of a round. Its error is why there are no rows.
func (c *topCommand) send(r *top.Round) (answers []top.Answer, err error) {
	for _, q := range r.Requests {
		raw, failure := c.fetch(q.Method, q.Path, q.Query, q.Body)
		a := top.Answer{Request: q, Raw: raw}
		if failure != nil {
			a.Problem = failure.Error()
			_, a.Refused = errors.AsType[*rejection](failure)
		}
		answers = append(answers, a)
		if failure != nil && (!a.Refused || q.What == "rows") {
			err = failure
		}
		if failure != nil && !a.Refused {
			break
		}
	}
	return answers, err
}

// objects prints an object for each interval, until a signal.
func (c *topCommand) objects(w *window, m *top.Model) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	for {
		object, err := m.JSON(time.Now())
		if err == nil {
			err = w.json(object)
		}
		if err != nil || c.Once {
			return err
		}
		var effects []top.Effect
		for effects == nil {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(m.Wait(time.Now())):
			}
			effects = m.Tick(time.Now())
		}
		answers, _ := c.send(effects[0].Ask)
		m.Take(effects[0].Ask.ID, answers, time.Now())
	}
}

// answered is the end of a round, or of the goroutine that it was sent in.
type answered struct {
	round   int
	answers []top.Answer
	panic   any
}

// viewer is a live view.
type viewer struct {
	command *topCommand
	model   *top.Model
	taken   *taken
	rounds  chan answered
	signals chan os.Signal
	drawn   string
	colours bool
}

func newViewer(c *topCommand, m *top.Model, colours bool) *viewer {
	return &viewer{command: c, model: m, colours: colours, rounds: make(chan answered, 100),
		signals: make(chan os.Signal, 10)}
}

// live draws the view until the user, a signal or the end of the terminal ends it. The terminal is given back always.
func (v *viewer) live(in, out *os.File) (err error) {
	signal.Notify(v.signals, syscall.SIGWINCH, syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGTERM, syscall.SIGHUP,
		syscall.SIGQUIT, os.Interrupt)
	defer signal.Stop(v.signals)
	if v.taken, err = take(in, out); err != nil {
		return err
	}
	defer v.taken.giveBack()
	return v.loop(v.taken.read())
}

// sequenceTime is how long a terminal may take between the bytes of one key.
const sequenceTime = 50 * time.Millisecond

func (v *viewer) loop(typed <-chan []byte) error {
	var rest []byte
	for {
		if err := v.draw(); err != nil {
			return err
		}
		wait := v.model.Wait(time.Now())
		if len(rest) > 0 {
			wait = sequenceTime
		}
		var effects []top.Effect
		var keys []string
		select {
		case more, open := <-typed:
			if !open {
				return nil
			}
			keys, rest = terminal.Keys(append(rest, more...), false)
		case a := <-v.rounds:
			if a.panic != nil {
				panic(a.panic)
			}
			effects = v.model.Take(a.round, a.answers, time.Now())
		case s := <-v.signals:
			if end, err := v.hear(s); end {
				return err
			}
		case <-time.After(wait):
			keys, rest = terminal.Keys(rest, true)
		}
		for _, key := range keys {
			effects = append(effects, v.model.Press(key, time.Now())...)
		}
		if len(effects) == 0 {
			effects = v.model.Tick(time.Now())
		}
		if end, err := v.do(effects); end {
			return err
		}
	}
}

// do does what the model wants. It reports whether that is the end.
func (v *viewer) do(effects []top.Effect) (end bool, err error) {
	for _, e := range effects {
		switch {
		case e.Quit:
			return true, nil
		case e.Suspend:
			if end, err := v.suspend(); end {
				return true, err
			}
		case e.Ask != nil:
			go func() {
				a := answered{round: e.Ask.ID}
				defer func() {
					a.panic = recover()
					v.rounds <- a
				}()
				a.answers, _ = v.command.send(e.Ask)
			}()
		}
	}
	return false, nil
}

// hear takes a signal. It reports whether that is the end.
func (v *viewer) hear(s os.Signal) (end bool, err error) {
	switch s {
	case syscall.SIGWINCH:
		v.drawn = ""
		return false, nil
	case syscall.SIGCONT: // after a stop that could not be heard
		v.drawn = ""
		return false, v.taken.again()
	case syscall.SIGTSTP:
		return v.suspend()
	case os.Interrupt:
		return true, nil
	}
	return true, fmt.Errorf("ended by a signal: %s", s)
}

// suspend gives the terminal back, stops the process, and takes the terminal again when it goes on.
func (v *viewer) suspend() (end bool, err error) {
	v.taken.giveBack()
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGSTOP); err != nil {
		return true, err
	}
	for s := range v.signals { // threads of a process stop a moment later than it asks for it
		switch s {
		case syscall.SIGCONT:
			v.drawn = ""
			return false, v.taken.again()
		case syscall.SIGWINCH, syscall.SIGTSTP:
		default:
			return v.hear(s)
		}
	}
	return true, nil
}

// draw draws the picture if it has changed.
func (v *viewer) draw() error {
	width, height := v.taken.size()
	picture := terminal.Picture(v.model.View(width, height, time.Now()), v.colours)
	if picture == v.drawn {
		return nil
	}
	v.drawn = picture
	_, err := io.WriteString(v.taken.out, picture)
	return err
}

// taken is a terminal that a program has taken over.
type taken struct {
	in, out *os.File
	was     *term.State
}

// take takes a terminal over. The caller gives it back.
func take(in, out *os.File) (*taken, error) {
	was, err := term.GetState(int(in.Fd()))
	if err != nil {
		return nil, fmt.Errorf("the terminal: %w", err)
	}
	t := &taken{in, out, was}
	return t, t.again()
}

// again takes it over once more.
func (t *taken) again() error {
	if _, err := term.MakeRaw(int(t.in.Fd())); err != nil {
		return fmt.Errorf("the terminal: %w", err)
	}
	_, err := io.WriteString(t.out, terminal.Enter)
	return err
}

func (t *taken) giveBack() {
	_, _ = io.WriteString(t.out, terminal.Leave) // to a terminal that is gone there is nothing to give
	_ = term.Restore(int(t.in.Fd()), t.was)
}

// size is that of the screen.
func (t *taken) size() (width, height int) {
	width, height, err := term.GetSize(int(t.out.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		return 80, 24
	}
	return width, height
}

// read hands on what is typed. The channel is closed when the terminal is gone.
func (t *taken) read() <-chan []byte {
	typed := make(chan []byte)
	go func() {
		defer close(typed)
		for {
			buffer := make([]byte, 256)
			n, err := t.in.Read(buffer)
			if err != nil {
				return
			}
			typed <- buffer[:n]
		}
	}()
	return typed
}
