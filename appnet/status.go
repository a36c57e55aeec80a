package appnet

import "slices"

// status returns the current status of the app network.
func (m *Machine) status() AppNetworkStatus {
	v := m.view
	pending, why := Pending(v)
	st := AppNetworkStatus{
		UUID:          m.app,
		DisplayName:   m.name,
		Pending:       pending,
		Activated:     m.activated(),
		TargetVersion: v.TargetVersion,
	}
	for _, i := range v.indices() {
		a := m.adapter(i)
		st.Adapters = append(st.Adapters, a)
		if st.Error == "" && a.Error != "" {
			st.Error = reason(i, "%s", a.Error)
		}
	}
	if st.Error == "" {
		st.Error = why
	}
	return st
}

// activated reports whether the app is to be active and every adapter has reported that it is, on its desired network
// and at the desired version.
func (m *Machine) activated() bool {
	v := m.view
	if v.Config == nil || !v.Config.Activate {
		return false
	}
	for i := range v.Config.Adapters {
		p := v.place(i)
		if s := v.Statuses[p]; !s.Activated || s.TargetVersion != v.TargetVersion || !v.Networks[p.Scope].Online {
			return false
		}
	}
	return true
}

// adapter returns the status of one adapter: on its desired network, or on the one that it has not left yet.
func (m *Machine) adapter(index int) AdapterStatus {
	v := m.view
	var p AdapterScope
	for _, q := range v.leftovers() {
		if q.Key.Index == index {
			p = q
		}
	}
	if v.wantsAdapter(index) {
		at := v.place(index)
		if _, entered := v.Published[at]; entered || p.Key != at.Key {
			p = at
		}
	}
	s := v.Statuses[p]
	a := AdapterStatus{
		Index:           index,
		NetworkInstance: p.Scope,
		TargetVersion:   s.TargetVersion,
		Activated:       s.Activated,
		Link:            s.Link,
		Error:           s.Error,
		Waiting:         s.Waiting,
		CheckFailed:     s.CheckFailed,
	}
	if !v.Networks[p.Scope].Online {
		a.Activated, a.Error, a.Waiting, a.CheckFailed = false, v.offline(p.Scope), true, false
	}
	return a
}

// show publishes a status if it differs from the one shown.
func (m *Machine) show(st AppNetworkStatus) []Effect {
	if m.view.Config == nil && len(m.view.leftovers()) == 0 {
		return nil // withdrawn at the end of this step
	}
	if m.shown != nil && equal(*m.shown, st) {
		return nil
	}
	m.shown = &st
	return []Effect{PublishStatus{st}}
}

func equal(a, b AppNetworkStatus) bool {
	same := slices.Equal(a.Adapters, b.Adapters)
	a.Adapters, b.Adapters = nil, nil
	return same && a.UUID == b.UUID && a.DisplayName == b.DisplayName && a.Pending == b.Pending &&
		a.Activated == b.Activated && a.TargetVersion == b.TargetVersion && a.Error == b.Error
}
