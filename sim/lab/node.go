package lab

import (
	"fmt"

	"couchrelay/core/instant"
	"couchrelay/core/node"
	"couchrelay/core/prng"
	"couchrelay/core/replication"
)

// labNode drives a node of core/node. Its runs take time and do nothing else.
type labNode struct {
	lab     *lab
	number  int
	life    int32 // counts starts; what is planned for another one does not happen
	alive   bool
	machine *node.Node
	runs    map[uint64]*run
	wakeAt  instant.Time // of the wake that is planned
	waits   [2]wait      // by topic
	waited  uint64       // number of the last await
}

// wait is an await of the node.
type wait struct {
	node.Await
	number uint64 // 0 for none
}

func (p *labNode) boot() {
	l := p.lab
	p.life++
	p.alive, p.runs, p.wakeAt, p.waits = true, map[uint64]*run{}, instant.Never, [2]wait{}
	name := fmt.Sprint("n", p.number+1)
	worker := fmt.Sprintf("%s/%d", name, p.life)
	seed := prng.Fork(l.c.Seed, worker)
	p.machine = node.New(node.Config{
		Settings: l.c.Settings.Node, Name: name, Roles: node.AllRoles, Worker: worker,
		Exclusive: l.c.Nodes == 1, Seed: seed.Uint64(), Settling: l.c.Settings.Settling,
	})
	l.tell(Event{What: NodeUp, Job: -1, Node: p.number, Slots: p.machine.MaxJobs()})
	p.handle(node.Start{})
}

func (p *labNode) fail() {
	if !p.alive {
		return
	}
	for _, r := range p.sortedRuns() {
		p.lab.over(p, r, Vanished)
	}
	for job := range p.lab.jobs {
		p.lab.forgotten(job, int32(p.number+1))
	}
	p.alive, p.waits = false, [2]wait{}
	p.life++
	p.lab.tell(Event{What: NodeDown, Job: -1, Node: p.number})
}

// handle steps the machine and carries its effects out.
func (p *labNode) handle(ev node.Event) {
	l := p.lab
	for _, e := range p.machine.Step(node.Clock{Steady: l.now, Wall: l.now}, ev) {
		switch e := e.(type) {
		case node.Ask:
			l.ask(p, e)
		case node.Await:
			p.await(e)
		case node.StartRun:
			p.start(e)
		case node.TellRun:
			if _, is := e.Event.(replication.GiveWay); is { // the laboratory's runs have no documents
				p.handle(node.RunGivesWay{Run: e.Run})
			}
		case node.StopRun:
			p.stop(e.Run)
		case node.KillRun:
			p.kill(e.Run)
		}
	}
	if at := p.machine.Deadline(); at < p.wakeAt {
		p.wakeAt = at
		p.plan(wake, max(at, l.now), 0)
	}
}

func (p *labNode) plan(what deed, at instant.Time, which uint64) {
	p.lab.agenda.plan(due{at: at, what: what, node: int32(p.number), life: p.life, which: which})
}

// await notes what the node waits for. A watch may be lost, so the node is told after a while in any case.
func (p *labNode) await(a node.Await) {
	p.waited++
	p.waits[a.Topic] = wait{a, p.waited}
	p.plan(lostWatch, p.lab.now.Add(watchLimit), p.waited)
}

// look has the node notified of what it waits for, if that has happened.
func (p *labNode) look() error {
	for topic := range p.waits {
		w := &p.waits[topic]
		if w.number == 0 {
			continue
		}
		counter, err := p.lab.counter(w.Await)
		if err != nil {
			return err
		}
		if counter != w.Seen {
			p.plan(notify, p.lab.now.Add(p.lab.c.Latency), uint64(topic))
			w.number = 0
		}
	}
	return nil
}

// watchLost ends an await whose number is still the same.
func (p *labNode) watchLost(number uint64) {
	for topic := range p.waits {
		if w := &p.waits[topic]; w.number == number {
			w.number = 0
			p.handle(node.Notified{Topic: node.Topic(topic)})
		}
	}
}
