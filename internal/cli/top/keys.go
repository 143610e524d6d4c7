package top

import tea "charm.land/bubbletea/v2"

// keyOf returns the name of a key. Terminals report two quick Escapes as Alt and Escape.
func keyOf(msg tea.KeyPressMsg) string {
	if key := msg.String(); key != "alt+esc" {
		return key
	}
	return "esc"
}

// key handles a key.
func (m *Model) key(msg tea.KeyPressMsg) tea.Cmd {
	key := keyOf(msg)
	switch {
	case key == "ctrl+c":
		m.close()
		return tea.Quit
	case m.question != nil:
		q := m.question
		m.question = nil
		if key == "y" || key == "Y" {
			m.notice = notice{text: q.doing}
			return q.do
		}
		return nil
	case m.help:
		m.help = false
		return nil
	case m.filter().typing:
		m.filter().edit(msg)
		m.list.move(0)
		m.services.move(0)
		m.schedules.move(0)
		return nil
	}
	m.notice = notice{}
	switch {
	case key == "q":
		m.close()
		return tea.Quit
	case key == "?":
		m.help = true
		return nil
	case key == "/" && (m.page == nil || m.page.part == logs):
		m.filter().typing = true
		return nil
	case m.services.shown:
		m.serviceKey(key)
		return nil
	case m.schedules.shown:
		return m.scheduleKey(key)
	}
	switch key {
	case "s":
		m.ask("stop", m.actions.Stop)
	case "r":
		m.ask("restart", m.actions.Restart)
	case "x":
		return m.shell()
	default:
		if m.page != nil {
			return m.pageKey(key)
		}
		return m.listKey(key)
	}
	return nil
}

func (m *Model) listKey(key string) tea.Cmd {
	part, opens := map[string]int{"enter": overview, "right": overview, "l": logs, "f": logs, "e": events}[key]
	switch {
	case opens && m.list.selected != "":
		return tea.Batch(m.open(m.list.selected), m.show(part))
	case key == "esc":
		m.list.filter = filter{}
	case key == "tab":
		m.services.shown = true
	case key == "o":
		m.list.order = (m.list.order + 1) % len(taskOrders)
	case key == "a":
		m.list.all = !m.list.all
	}
	m.list.move(m.steps(key))
	return nil
}

// serviceKey handles a key while services are shown.
func (m *Model) serviceKey(key string) {
	v := &m.services
	switch {
	case key == "c":
		m.askService("continue", m.actions.Continue)
	case key == "b":
		m.askService("roll back", m.actions.Rollback)
	case v.opened && (key == "esc" || key == "left" || key == "backspace"):
		v.opened = false
	case v.opened && key == "tab":
		v.part, v.up, v.down = events-v.part, 0, 0
	case v.opened && key == "1":
		v.part, v.up, v.down = overview, 0, 0
	case v.opened && key == "2":
		v.part, v.up, v.down = events, 0, 0
	case v.opened:
		v.scroll(m.steps(key))
	case key == "tab":
		v.shown, m.schedules.shown = false, true
	case key == "esc":
		v.filter = filter{}
		v.move(0)
	case (key == "enter" || key == "right") && v.selected != "":
		v.opened, v.part, v.up, v.down = true, overview, 0, 0
	default:
		v.move(m.steps(key))
	}
}

// scheduleKey handles a key while schedules are shown.
func (m *Model) scheduleKey(key string) tea.Cmd {
	v := &m.schedules
	switch {
	case key == "tab":
		v.shown = false
	case key == "esc":
		v.filter = filter{}
	case (key == "enter" || key == "right") && v.latest() != "":
		v.shown = false
		return m.open(v.latest())
	}
	v.move(m.steps(key))
	return nil
}

func (m *Model) pageKey(key string) tea.Cmd {
	p := m.page
	switch key {
	case "esc", "left", "backspace":
		m.close()
	case "tab":
		return m.show((p.part + 1) % parts)
	case "shift+tab":
		return m.show((p.part + parts - 1) % parts)
	case "1", "o":
		return m.show(overview)
	case "2", "l":
		return m.show(logs)
	case "3", "e":
		return m.show(events)
	case "f":
		if p.part == overview {
			return m.show(logs)
		}
		if p.hold = !p.hold; !p.hold {
			p.up = 0
		}
	default:
		p.scroll(m.steps(key))
	}
	return nil
}

// allLines is more than the length of any list.
const allLines = 1 << 20

// steps returns by how many lines a key moves.
func (c canvas) steps(key string) int {
	screen := max(1, c.height-listFrame)
	return map[string]int{
		"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -screen, "pgdown": screen, "space": screen,
		"home": -allLines, "g": -allLines, "end": allLines, "G": allLines,
	}[key]
}
