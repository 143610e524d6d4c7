package top

import (
	"context"
	"errors"
	"slices"

	tea "charm.land/bubbletea/v2"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Model is the state of the view.
type Model struct {
	commands
	canvas
	list      list
	services  services
	schedules schedules
	help      bool
	// page is the open task; nil if the list is shown.
	page *page
	// question is nil if there is none.
	question *question
	notice   notice
}

// question asks the user to confirm an action with y.
type question struct {
	text, doing string
	do          tea.Cmd
}

// notice is a message in the last line but one.
type notice struct {
	text string
	bad  bool
}

// New returns a model. Its calls end with ctx.
func New(ctx context.Context, source Source, actions Actions, options Options) *Model {
	return &Model{
		commands: commands{ctx, source, actions, options},
		canvas:   canvas{width: 80, height: 24, now: options.Now(), colors: options.Colors},
		list:     list{all: options.All},
	}
}

// Init implements tea.Model. It requests the first sample.
func (m *Model) Init() tea.Cmd {
	if m.options.Open == "" {
		return m.sample(true)
	}
	return tea.Batch(m.sample(true), m.open(m.options.Open))
}

// Update implements tea.Model.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = max(20, msg.Width), max(6, msg.Height)
	case tea.KeyPressMsg:
		return m, m.key(msg)
	case tickMsg:
		return m, tea.Batch(m.sample(true), m.explain())
	case sampleMsg:
		m.now = msg.at
		m.say(msg.warning, errors.Join(msg.err, msg.unseen, msg.besideUnseen))
		m.list.hosts, m.list.now = msg.hosts, msg.at
		if msg.besideUnseen == nil || len(msg.beside.Schedules)+len(msg.beside.Stacks) > 0 { // else what was known stays
			stacks := NewStacks(msg.beside.Stacks)
			m.list.stacks, m.services.stacks = stacks, stacks
			m.schedules.set(msg.beside.Schedules)
		}
		if msg.err == nil {
			m.list.setTasks(msg.tasks)
		}
		if msg.unseen == nil {
			m.services.set(msg.services)
		}
		if msg.again {
			return m, m.wait()
		}
	case detailMsg:
		if m.page != nil && m.page.id == msg.id {
			m.page.loading = false
			m.say("", msg.err)
			if msg.err == nil { // a removed task is shown as it was
				m.page.detail = msg.detail
			}
		}
	case logMsg:
		if m.page != nil && m.page.logs.more == msg.more && m.page.add(msg) {
			return m, next(msg.more)
		}
	case actionMsg:
		m.notice = notice{}
		m.say(msg.text, msg.err)
		return m, m.sample(false)
	}
	return m, nil
}

// View implements tea.Model.
func (m *Model) View() tea.View {
	v := tea.NewView(m.text())
	v.AltScreen, v.WindowTitle = true, "podtask top"
	return v
}

// text returns the content of the screen.
func (m *Model) text() string {
	footer := m.footer(m.question, *m.filter(), m.notice)
	switch {
	case m.help:
		return drawHelp(m.canvas)
	case m.services.shown && m.services.opened:
		return m.services.drawPage(m.canvas, footer)
	case m.services.shown:
		return m.services.draw(m.canvas, footer)
	case m.schedules.shown:
		return m.schedules.draw(m.canvas, footer)
	case m.page != nil:
		task, _ := m.current()
		return m.page.draw(m.canvas, task, m.list.usedBy(m.page.id), footer)
	}
	return m.list.draw(m.canvas, footer)
}

// filter returns the filter of what is shown.
func (m *Model) filter() *filter {
	switch {
	case m.services.shown:
		return &m.services.filter
	case m.schedules.shown:
		return &m.schedules.filter
	case m.page != nil:
		return &m.page.search
	}
	return &m.list.filter
}

// say shows a message or an error, if there is one.
func (m *Model) say(text string, err error) {
	switch {
	case err != nil && !errors.Is(err, context.Canceled):
		m.notice = notice{term.Line(err.Error()), true}
	case err == nil && text != "":
		m.notice = notice{term.Line(text), false}
	}
}

// current returns the open task, or the selected one in the list.
func (m *Model) current() (api.Task, bool) {
	id := m.list.selected
	if m.page != nil {
		if id = m.page.id; m.page.detail.Task.ID != "" {
			return m.page.detail.Task, true
		}
	}
	for _, t := range m.list.tasks {
		if t.ID == id {
			return t.Task, true
		}
	}
	return api.Task{}, false
}

// open shows a task.
func (m *Model) open(id string) tea.Cmd {
	m.close()
	m.page = &page{id: id}
	return m.explain()
}

// close returns to the list.
func (m *Model) close() {
	if m.page != nil && m.page.logs.cancel != nil {
		m.page.logs.cancel()
	}
	m.page = nil
}

// explain requests the details of the open task, unless it waits for them already.
func (m *Model) explain() tea.Cmd {
	if m.page == nil || m.page.loading {
		return nil
	}
	m.page.loading = true
	return m.commands.explain(m.page.id)
}

// show shows a part of the page, and opens the logs when they are first shown.
func (m *Model) show(part int) tea.Cmd {
	p := m.page
	p.part, p.up, p.down, p.hold = part, 0, 0, false
	if part != logs || p.logs.more != nil {
		return nil
	}
	var follow tea.Cmd
	p.logs, follow = m.follow(p.id)
	return tea.Batch(follow, next(p.logs.more))
}

// ask asks for confirmation of an action on the current task.
func (m *Model) ask(verb string, do func(context.Context, string) error) {
	if t, ok := m.current(); ok {
		what := verb + " " + console.TaskName(t)
		m.question = &question{what + "? y or n", what + " ...", m.act(what, t.ID, do)}
	}
}

// askService asks for confirmation of an action on the selected service.
func (m *Model) askService(verb string, do func(context.Context, string) error) {
	if s, ok := m.services.current(); ok {
		what := verb + " " + s.ServiceName
		m.question = &question{what + "? y or n", what + " ...", m.act(what, s.ServiceName, do)}
	}
}

// shell opens a shell in the selected container; in the list, in a running container of the task, an essential
// one if there is any.
func (m *Model) shell() tea.Cmd {
	t, ok := m.current()
	if !ok {
		return nil
	}
	running := func(c api.Container) bool { return c.Status == lifecycle.StatusRunning.String() }
	i := slices.IndexFunc(t.Containers, func(c api.Container) bool { return running(c) && c.Essential })
	if i < 0 {
		i = slices.IndexFunc(t.Containers, running)
	}
	if m.page != nil {
		i = min(m.page.container, len(t.Containers)-1)
	}
	switch {
	case i < 0:
		m.notice = notice{"no container of " + console.TaskName(t) + " runs", true}
	case !running(t.Containers[i]):
		m.notice = notice{"container " + t.Containers[i].Name + " does not run", true}
	default:
		return m.enter(t.ID, t.Containers[i].Name)
	}
	return nil
}
