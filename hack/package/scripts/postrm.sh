if [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; then
	systemctl --no-block reload 'user@*.service' || true
fi
