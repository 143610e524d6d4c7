package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

func (b *box) serve(args []string) error {
	listener, err := net.Listen("tcp", ":"+args[0])
	if err != nil {
		return err
	}
	if args[0] == "0" {
		fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		host, _ := os.Hostname()
		fmt.Fprintln(w, host)
	})
	mux.HandleFunc("/env/{name}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, os.Getenv(r.PathValue("name")))
	})
	mux.HandleFunc("POST /env/{name}", func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		fmt.Fprintln(w, os.Getenv(r.PathValue("name")), n)
	})
	mux.HandleFunc("/exists/{file...}", func(w http.ResponseWriter, r *http.Request) {
		if !there(r, "/"+r.PathValue("file")) {
			http.Error(w, "there is no such file", http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/events", events)
	mux.HandleFunc("/socket", webSocket)
	mux.HandleFunc("POST /grpc.health.v1.Health/Check", grpcHealth)
	server := &http.Server{Handler: mux, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	b.serving = true
	go func() {
		err := server.Serve(listener)
		fmt.Fprintln(os.Stderr, "testbox: serve:", err)
		os.Exit(1)
	}()
	return nil
}

// eventPause is between two events of a stream.
const eventPause = 100 * time.Millisecond

// events sends a stream of server-sent events with the greeting and a number that grows.
func events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	tick := time.NewTicker(eventPause)
	defer tick.Stop()
	for n := 1; ; n++ {
		fmt.Fprintf(w, "data: %s %d\n\n", os.Getenv("GREETING"), n)
		if http.NewResponseController(w).Flush() != nil {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}

// webSocket answers each message with the greeting and the message.
func webSocket(w http.ResponseWriter, r *http.Request) {
	c, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer c.Close()
	for {
		kind, text, err := c.ReadMessage()
		if err != nil {
			return
		}
		if c.WriteMessage(kind, []byte(os.Getenv("GREETING")+" "+string(text))) != nil {
			return
		}
	}
}

// hangs is a file while which answers about files do not come.
const hangs = "/tmp/hang"

// there reports whether a file is there, and whether it is waited for.
func there(r *http.Request, file string) bool {
	for {
		if _, err := os.Stat(hangs); err != nil {
			_, err := os.Stat(file)
			return err == nil
		}
		select {
		case <-r.Context().Done():
			return false
		case <-time.After(pollPause):
		}
	}
}

// grpcHealth is the health service of gRPC: the name of a service is that of a file.
func grpcHealth(w http.ResponseWriter, r *http.Request) {
	request, err := io.ReadAll(r.Body)
	status := byte(2) // NOT_SERVING
	if err == nil && len(request) > 7 && there(r, string(request[7:])) {
		status = 1
	}
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Trailer", "Grpc-Status")
	_, _ = w.Write([]byte{0, 0, 0, 0, 2, 1 << 3, status})
	w.Header().Set("Grpc-Status", "0")
}

// door listens while a file is there, and accepts all connections.
func (b *box) door(args []string) error {
	b.serving = true
	go func() {
		var listener net.Listener
		for ; ; time.Sleep(pollPause) {
			_, err := os.Stat(args[1])
			switch open := err == nil; {
			case open && listener == nil:
				if listener, err = net.Listen("tcp", ":"+args[0]); err != nil {
					fmt.Fprintln(os.Stderr, "testbox: door:", err)
					os.Exit(1)
				}
			case !open && listener != nil:
				listener.Close()
				listener = nil
			}
		}
	}()
	return nil
}

func (b *box) echo(args []string) error {
	socket, err := net.ListenPacket("udp", ":"+args[0])
	if err != nil {
		return err
	}
	b.serving = true
	go func() {
		for packet := make([]byte, 1500); ; {
			n, from, err := socket.ReadFrom(packet)
			if err == nil {
				_, err = socket.WriteTo(packet[:n], from)
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, "testbox: echo:", err)
				os.Exit(1)
			}
		}
	}()
	return nil
}

func (b *box) flood(args []string) error {
	addr := os.ExpandEnv(args[0])
	if u, err := url.Parse(addr); err == nil && u.Host != "" {
		addr = u.Host
	}
	return withInt(args[1], func(n int) error {
		b.serving = true
		var opened sync.WaitGroup
		for range n {
			opened.Add(1)
			go func() {
				first := sync.OnceFunc(opened.Done)
				for ; ; time.Sleep(time.Second) {
					c, err := net.DialTimeout("tcp", addr, patience)
					first()
					if err == nil {
						_, _ = io.Copy(io.Discard, c)
						c.Close()
					}
				}
			}()
		}
		opened.Wait()
		return say(os.Stdout, []string{"flooding"})
	})
}

func get(url string) error { return request(http.MethodGet, url, "") }

// request prints the answer to a request.
func request(method, url, body string) error {
	client := &http.Client{Timeout: patience}
	req, err := http.NewRequest(method, os.ExpandEnv(url), strings.NewReader(body))
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return errors.New(res.Status)
	}
	_, err = io.Copy(os.Stdout, res.Body)
	return err
}

func await(_ *box, args []string) error {
	for get(args[0]) != nil {
		time.Sleep(pollPause)
	}
	return nil
}

// ask asks until a file is there.
func ask(_ *box, args []string) error {
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	count, last := 0, ""
	for ; ; time.Sleep(pollPause) {
		if _, err := os.Stat(args[1]); err == nil {
			return say(os.Stdout, []string{"asked", strconv.Itoa(count)})
		}
		res, err := client.Get(os.ExpandEnv(args[0]))
		if err != nil {
			return err
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK {
			return errors.Join(err, errors.New(res.Status))
		}
		count++
		if string(text) != last {
			last = string(text)
			fmt.Print(last)
		}
	}
}

// patience bounds a request: machines have other work too.
const patience = 15 * time.Second

func try(_ *box, args []string) error {
	client := &http.Client{Timeout: patience}
	for _, url := range args {
		answer := "no"
		if res, err := client.Get(os.ExpandEnv(url)); err == nil {
			res.Body.Close()
			answer = strconv.Itoa(res.StatusCode)
		}
		if err := say(os.Stdout, []string{answer}); err != nil {
			return err
		}
	}
	return nil
}
