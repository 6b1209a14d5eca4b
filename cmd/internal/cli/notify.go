package cli

import "net"

// notify sends the server's state to the service manager, if there is one: systemd names a socket
// in NOTIFY_SOCKET (sd_notify(3)).
func (s *server) notify(p Process, state string) {
	name, _ := p.LookupEnv("NOTIFY_SOCKET")
	if name == "" {
		return
	}
	if name[0] == '@' { // abstract socket
		name = "\x00" + name[1:]
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err == nil {
		_, err = conn.Write([]byte(state))
		conn.Close()
	}
	if err != nil {
		s.log.Warn("the service manager was not told", "state", state, "err", err)
	}
}
