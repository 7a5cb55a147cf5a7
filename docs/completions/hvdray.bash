# Generated from the option table by hvdray-gen-cli; do not edit.
_hvdray_run() {
  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" i
  local first=1 command=run words verbs
  if [[ ${COMP_WORDS[0]##*/} == hvdray ]]; then
    first=2
    command=${COMP_WORDS[1]}
  fi
  if (( first == 2 && COMP_CWORD == 1 )); then
    COMPREPLY=($(compgen -W 'run check serve replay follow up down stop status monitor exec attach submit rsync-up rsync-down get-head-ip get-worker-ips dashboard logs jobs slots cluster bench tune rendezvous explain agent help version' -- "$word"))
    return
  fi
  case "$command" in
    help) COMPREPLY=($(compgen -W 'run check serve replay follow up down stop status monitor exec attach submit rsync-up rsync-down get-head-ip get-worker-ips dashboard logs jobs slots cluster bench tune rendezvous explain' -- "$word")); return ;;
    run) words='-h --help -v --version -cb --check-build -f --file -x --env --clean-env --keep-rank-variables --cwd --sync --no-torch-env --omp-threads --channel --preload --horovod -np --num-proc -H --hosts -hostfile --hostfile --cluster --slots-per-host --disable-cache --host-discovery-script --min-np --min-num-proc --max-np --max-num-proc --elastic-timeout --reset-limit --blacklist-cooldown-range --elastic-mode --join --success --discovery-interval --discovery-timeout --straggler-timeout --settle --no-break-connections --max-restarts --grace --timeout --start-timeout --heartbeat-timeout --output-filename -prefix-timestamp --prefix-output-with-timestamp --tag-output --stdin --color -q --quiet --verbose --log-json --dry-run --print-plan --print-config --report --events --junit --trace --record --network-interfaces --network-interface --master-port --no-peer-check -p --ssh-port -i --ssh-identity-file --ssh-transport --ssh-config --strict-host-key-checking --launch-agent --remote-dir --ray --ray-address --ray-verify --ray-headers --ray-python --keep-ray-env --detach --stop-with-client --ray-log-limit --working-dir --exclude --runtime-env --runtime-env-json --num-hosts --num-slots --cpus-per-slot --gpus-per-slot --use-gpu --resources-per-slot --label-selector --strategy --placement-group-timeout --gpu-visibility --backend --config-file --fusion-threshold-mb --cycle-time-ms --cache-capacity --hierarchical-allreduce --no-hierarchical-allreduce --hierarchical-allgather --no-hierarchical-allgather --torus-allreduce --no-torus-allreduce --tcp --autotune --autotune-log-file --autotune-warmup-samples --autotune-steps-per-sample --autotune-bayes-opt-max-samples --autotune-gaussian-process-noise --timeline-filename --timeline-mark-cycles --no-stall-check --stall-check-warning-time-seconds --stall-check-shutdown-time-seconds --mpi-threads-disable --num-nccl-streams --thread-affinity --gloo-timeout-seconds --log-level --log-without-timestamp --gloo --mpi --jsrun --mpi-args --binding-args' ;;
    check) words='--json --import -h --help -v --version -cb --check-build -f --file -x --env --clean-env --keep-rank-variables --cwd --sync --no-torch-env --omp-threads --channel --preload --horovod -np --num-proc -H --hosts -hostfile --hostfile --cluster --slots-per-host --disable-cache --host-discovery-script --min-np --min-num-proc --max-np --max-num-proc --elastic-timeout --reset-limit --blacklist-cooldown-range --elastic-mode --join --success --discovery-interval --discovery-timeout --straggler-timeout --settle --no-break-connections --max-restarts --grace --timeout --start-timeout --heartbeat-timeout --output-filename -prefix-timestamp --prefix-output-with-timestamp --tag-output --stdin --color -q --quiet --verbose --log-json --dry-run --print-plan --print-config --report --events --junit --trace --record --network-interfaces --network-interface --master-port --no-peer-check -p --ssh-port -i --ssh-identity-file --ssh-transport --ssh-config --strict-host-key-checking --launch-agent --remote-dir --ray --ray-address --ray-verify --ray-headers --ray-python --keep-ray-env --detach --stop-with-client --ray-log-limit --working-dir --exclude --runtime-env --runtime-env-json --num-hosts --num-slots --cpus-per-slot --gpus-per-slot --use-gpu --resources-per-slot --label-selector --strategy --placement-group-timeout --gpu-visibility --backend --config-file --fusion-threshold-mb --cycle-time-ms --cache-capacity --hierarchical-allreduce --no-hierarchical-allreduce --hierarchical-allgather --no-hierarchical-allgather --torus-allreduce --no-torus-allreduce --tcp --autotune --autotune-log-file --autotune-warmup-samples --autotune-steps-per-sample --autotune-bayes-opt-max-samples --autotune-gaussian-process-noise --timeline-filename --timeline-mark-cycles --no-stall-check --stall-check-warning-time-seconds --stall-check-shutdown-time-seconds --mpi-threads-disable --num-nccl-streams --thread-affinity --gloo-timeout-seconds --log-level --log-without-timestamp --gloo --mpi --jsrun --mpi-args --binding-args' ;;
    serve) words='--control-fd --control --linger --host-source --ray-broker-fd -h --help -v --version -cb --check-build -f --file -x --env --clean-env --keep-rank-variables --cwd --sync --no-torch-env --omp-threads --channel --preload --horovod -np --num-proc -H --hosts -hostfile --hostfile --cluster --slots-per-host --disable-cache --host-discovery-script --min-np --min-num-proc --max-np --max-num-proc --elastic-timeout --reset-limit --blacklist-cooldown-range --elastic-mode --join --success --discovery-interval --discovery-timeout --straggler-timeout --settle --no-break-connections --max-restarts --grace --timeout --start-timeout --heartbeat-timeout --output-filename -prefix-timestamp --prefix-output-with-timestamp --tag-output --stdin --color -q --quiet --verbose --log-json --dry-run --print-plan --print-config --report --events --junit --trace --record --network-interfaces --network-interface --master-port --no-peer-check -p --ssh-port -i --ssh-identity-file --ssh-transport --ssh-config --strict-host-key-checking --launch-agent --remote-dir --ray --ray-address --ray-verify --ray-headers --ray-python --keep-ray-env --detach --stop-with-client --ray-log-limit --working-dir --exclude --runtime-env --runtime-env-json --num-hosts --num-slots --cpus-per-slot --gpus-per-slot --use-gpu --resources-per-slot --label-selector --strategy --placement-group-timeout --gpu-visibility --backend --config-file --fusion-threshold-mb --cycle-time-ms --cache-capacity --hierarchical-allreduce --no-hierarchical-allreduce --hierarchical-allgather --no-hierarchical-allgather --torus-allreduce --no-torus-allreduce --tcp --autotune --autotune-log-file --autotune-warmup-samples --autotune-steps-per-sample --autotune-bayes-opt-max-samples --autotune-gaussian-process-noise --timeline-filename --timeline-mark-cycles --no-stall-check --stall-check-warning-time-seconds --stall-check-shutdown-time-seconds --mpi-threads-disable --num-nccl-streams --thread-affinity --gloo-timeout-seconds --log-level --log-without-timestamp --gloo --mpi --jsrun --mpi-args --binding-args' ;;
    replay) words='--json -q --quiet -h --help -v --version' ;;
    follow) words='--ray-address --cluster --ray-verify --ray-headers --no-peer-check --timeout -q --quiet --report --events --junit --trace --record --output-filename -p --ssh-port -i --ssh-identity-file --ssh-config --strict-host-key-checking --start-timeout -h --help' ;;
    up) words='--dry-run -y --yes --restart-only --no-restart --force-setup --lease -n --cluster-name --min-workers --max-workers --use-login-shells --use-normal-shells --start-timeout -p --ssh-port -i --ssh-identity-file --ssh-transport --ssh-config --strict-host-key-checking --remote-dir --report --events --verbose --no-config-cache --disable-usage-stats --redirect-command-output -h --help' ;;
    down) words='-y --yes --workers-only --keep-min-workers --purge --expired -n --cluster-name --start-timeout -p --ssh-port -i --ssh-identity-file --ssh-transport --ssh-config --strict-host-key-checking --remote-dir --report --events --verbose --no-config-cache --disable-usage-stats --redirect-command-output -h --help' ;;
    stop) words='--timeout --ray --ray-address --cluster --ray-verify --ray-headers --no-peer-check -n --cluster-name -p --ssh-port -i --ssh-identity-file --ssh-config --strict-host-key-checking --start-timeout -v --verbose -h --help' ;;
    status) words='--ray --ray-address --cluster --ray-verify --ray-headers --no-peer-check --timeout --json -n --cluster-name -p --ssh-port -i --ssh-identity-file --ssh-config --strict-host-key-checking --start-timeout -h --help' ;;
    monitor) words='--interval --json -n --cluster-name -i --ssh-identity-file --ssh-config --strict-host-key-checking --start-timeout --timeout --no-peer-check -v --verbose --no-config-cache --disable-usage-stats --redirect-command-output -h --help' ;;
    exec) words='--tmux --screen -p --port-forward --run-env --node-ip --start --stop -n --cluster-name -i --ssh-identity-file --ssh-config --strict-host-key-checking --start-timeout -v --verbose --no-config-cache --disable-usage-stats --redirect-command-output -h --help' ;;
    attach) words='--tmux --screen -N --new -p --port-forward --run-env --node-ip --start -n --cluster-name -i --ssh-identity-file --ssh-config --strict-host-key-checking --start-timeout -v --verbose --no-config-cache --disable-usage-stats --redirect-command-output -h --help' ;;
    submit) words='--gang --tmux --screen -p --port-forward --run-env --start --stop -n --cluster-name -v --verbose --no-config-cache --disable-usage-stats --redirect-command-output -h --help --version -cb --check-build -f --file -x --env --clean-env --keep-rank-variables --cwd --sync --no-torch-env --omp-threads --channel --preload --horovod -np --num-proc -H --hosts -hostfile --hostfile --cluster --slots-per-host --disable-cache --host-discovery-script --min-np --min-num-proc --max-np --max-num-proc --elastic-timeout --reset-limit --blacklist-cooldown-range --elastic-mode --join --success --discovery-interval --discovery-timeout --straggler-timeout --settle --no-break-connections --max-restarts --grace --timeout --start-timeout --heartbeat-timeout --output-filename -prefix-timestamp --prefix-output-with-timestamp --tag-output --stdin --color -q --quiet --log-json --dry-run --print-plan --print-config --report --events --junit --trace --record --network-interfaces --network-interface --master-port --no-peer-check --ssh-port -i --ssh-identity-file --ssh-transport --ssh-config --strict-host-key-checking --launch-agent --remote-dir --ray --ray-address --ray-verify --ray-headers --ray-python --keep-ray-env --detach --stop-with-client --ray-log-limit --working-dir --exclude --runtime-env --runtime-env-json --num-hosts --num-slots --cpus-per-slot --gpus-per-slot --use-gpu --resources-per-slot --label-selector --strategy --placement-group-timeout --gpu-visibility --backend --config-file --fusion-threshold-mb --cycle-time-ms --cache-capacity --hierarchical-allreduce --no-hierarchical-allreduce --hierarchical-allgather --no-hierarchical-allgather --torus-allreduce --no-torus-allreduce --tcp --autotune --autotune-log-file --autotune-warmup-samples --autotune-steps-per-sample --autotune-bayes-opt-max-samples --autotune-gaussian-process-noise --timeline-filename --timeline-mark-cycles --no-stall-check --stall-check-warning-time-seconds --stall-check-shutdown-time-seconds --mpi-threads-disable --num-nccl-streams --thread-affinity --gloo-timeout-seconds --log-level --log-without-timestamp --gloo --mpi --jsrun --mpi-args --binding-args' ;;
    rsync-up) words='-A --all-nodes -n --cluster-name -i --ssh-identity-file --ssh-config --strict-host-key-checking --start-timeout -v --verbose --no-config-cache --disable-usage-stats --redirect-command-output -h --help' ;;
    rsync-down) words='-n --cluster-name -i --ssh-identity-file --ssh-config --strict-host-key-checking --start-timeout -v --verbose --no-config-cache --disable-usage-stats --redirect-command-output -h --help' ;;
    get-head-ip) words='-n --cluster-name --no-config-cache --disable-usage-stats --redirect-command-output -h --help' ;;
    get-worker-ips) words='-n --cluster-name --no-config-cache --disable-usage-stats --redirect-command-output -h --help' ;;
    dashboard) words='-p --port --remote-port --no-peer-check -n --cluster-name -i --ssh-identity-file --ssh-config --strict-host-key-checking --start-timeout -v --verbose --no-config-cache --disable-usage-stats --redirect-command-output -h --help' ;;
    logs) words='--lines -f --follow --ray --ray-address --cluster --ray-verify --ray-headers --no-peer-check -n --cluster-name -p --ssh-port -i --ssh-identity-file --ssh-config --strict-host-key-checking --start-timeout --timeout -v --verbose --no-config-cache --disable-usage-stats --redirect-command-output -h --help' ;;
    jobs) words='--ray --ray-address --cluster --ray-verify --ray-headers --no-peer-check --timeout --json -p --ssh-port -i --ssh-identity-file --ssh-config --strict-host-key-checking --start-timeout -h --help' ;;
    slots) words='--ray --ray-address --cluster --ray-verify --ray-headers --no-peer-check --timeout --json --cpus-per-slot --gpus-per-slot --use-gpu --resources-per-slot --label-selector -p --ssh-port -i --ssh-identity-file --ssh-config --strict-host-key-checking --start-timeout -h --help' ;;
    cluster) words='--resolved --json -n --cluster-name --min-workers --max-workers -h --help' verbs='config migrate' ;;
    bench) words='-b --minbytes -e --maxbytes -f --stepfactor -i --stepbytes --collective -d --datatype -o --op -r --root --backend -n --iters -w --warmup-iters -c --check --json --csv --tune --plot -h --help -v --version -cb --check-build --file -x --env --clean-env --keep-rank-variables --cwd --sync --no-torch-env --omp-threads --channel --preload --horovod -np --num-proc -H --hosts -hostfile --hostfile --cluster --slots-per-host --disable-cache --host-discovery-script --min-np --min-num-proc --max-np --max-num-proc --elastic-timeout --reset-limit --blacklist-cooldown-range --elastic-mode --join --success --discovery-interval --discovery-timeout --straggler-timeout --settle --no-break-connections --max-restarts --grace --timeout --start-timeout --heartbeat-timeout --output-filename -prefix-timestamp --prefix-output-with-timestamp --tag-output --stdin --color -q --quiet --verbose --log-json --dry-run --print-plan --print-config --report --events --junit --trace --record --network-interfaces --network-interface --master-port --no-peer-check -p --ssh-port --ssh-identity-file --ssh-transport --ssh-config --strict-host-key-checking --launch-agent --remote-dir --ray --ray-address --ray-verify --ray-headers --ray-python --keep-ray-env --detach --stop-with-client --ray-log-limit --working-dir --exclude --runtime-env --runtime-env-json --num-hosts --num-slots --cpus-per-slot --gpus-per-slot --use-gpu --resources-per-slot --label-selector --strategy --placement-group-timeout --gpu-visibility --config-file --fusion-threshold-mb --cycle-time-ms --cache-capacity --hierarchical-allreduce --no-hierarchical-allreduce --hierarchical-allgather --no-hierarchical-allgather --torus-allreduce --no-torus-allreduce --tcp --autotune --autotune-log-file --autotune-warmup-samples --autotune-steps-per-sample --autotune-bayes-opt-max-samples --autotune-gaussian-process-noise --timeline-filename --timeline-mark-cycles --no-stall-check --stall-check-warning-time-seconds --stall-check-shutdown-time-seconds --mpi-threads-disable --num-nccl-streams --thread-affinity --gloo-timeout-seconds --log-level --log-without-timestamp --gloo --mpi --jsrun --mpi-args --binding-args' ;;
    tune) words='--resume --study --plot --json -h --help' verbs='show' ;;
    rendezvous) words='--host --bind --port -H --hosts --allow --no-peer-check -q --quiet -h --help' ;;
    explain) words='-h --help' ;;
    *) return ;;
  esac
  if [[ $command == explain && $word != -* ]]; then
    COMPREPLY=($(compgen -W "$("${COMP_WORDS[0]}" explain | cut -d' ' -f1)" -- "$word"))
    return
  fi
  case "$before" in
    -f|--file)
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return ;;
    --cwd)
      mapfile -t COMPREPLY < <(compgen -d -- "$word")
      return ;;
    --horovod)
      COMPREPLY=($(compgen -W 'installed builtin' -- "$word"))
      return ;;
    -hostfile|--hostfile)
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return ;;
    --cluster)
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return ;;
    --elastic-mode)
      COMPREPLY=($(compgen -W 'horovod gang' -- "$word"))
      return ;;
    --join)
      COMPREPLY=($(compgen -W 'warm together' -- "$word"))
      return ;;
    --success)
      COMPREPLY=($(compgen -W 'all any' -- "$word"))
      return ;;
    --output-filename)
      mapfile -t COMPREPLY < <(compgen -d -- "$word")
      return ;;
    --tag-output)
      COMPREPLY=($(compgen -W 'rank host none' -- "$word"))
      return ;;
    --color)
      COMPREPLY=($(compgen -W 'auto always never' -- "$word"))
      return ;;
    --report)
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return ;;
    --events)
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return ;;
    --junit)
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return ;;
    --trace)
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return ;;
    --record)
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return ;;
    -i|--ssh-identity-file)
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return ;;
    --ssh-transport)
      COMPREPLY=($(compgen -W 'auto libssh2 openssh' -- "$word"))
      return ;;
    --ssh-config)
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return ;;
    --strict-host-key-checking)
      COMPREPLY=($(compgen -W 'accept-new yes no' -- "$word"))
      return ;;
    --remote-dir)
      mapfile -t COMPREPLY < <(compgen -d -- "$word")
      return ;;
    --runtime-env|--runtime-env-json)
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return ;;
    --strategy)
      COMPREPLY=($(compgen -W 'auto PACK SPREAD STRICT_PACK STRICT_SPREAD' -- "$word"))
      return ;;
    --gpu-visibility)
      COMPREPLY=($(compgen -W 'host rank' -- "$word"))
      return ;;
    --backend)
      COMPREPLY=($(compgen -W 'auto ray ssh' -- "$word"))
      return ;;
    --config-file)
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return ;;
    --autotune-log-file)
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return ;;
    --timeline-filename)
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return ;;
    --log-level)
      COMPREPLY=($(compgen -W 'TRACE DEBUG INFO WARNING ERROR FATAL' -- "$word"))
      return ;;
  esac
  # After the first word that is neither an option nor its value, files belong to the command.
  local with_value=' --import -f --file -x --env --cwd --sync --omp-threads --preload --horovod -np --num-proc -H --hosts -hostfile --hostfile --cluster --slots-per-host --host-discovery-script --min-np --min-num-proc --max-np --max-num-proc --elastic-timeout --reset-limit --blacklist-cooldown-range --elastic-mode --join --success --discovery-interval --discovery-timeout --straggler-timeout --settle --max-restarts --grace --timeout --start-timeout --heartbeat-timeout --output-filename --tag-output --stdin --color --report --events --junit --trace --record --network-interfaces --network-interface --master-port -p --ssh-port -i --ssh-identity-file --ssh-transport --ssh-config --strict-host-key-checking --launch-agent --remote-dir --ray-address --ray-verify --ray-headers --ray-python --ray-log-limit --working-dir --exclude --runtime-env --runtime-env-json --num-hosts --num-slots --cpus-per-slot --gpus-per-slot --resources-per-slot --label-selector --strategy --placement-group-timeout --gpu-visibility --backend --config-file --fusion-threshold-mb --cycle-time-ms --cache-capacity --autotune-log-file --autotune-warmup-samples --autotune-steps-per-sample --autotune-bayes-opt-max-samples --autotune-gaussian-process-noise --timeline-filename --stall-check-warning-time-seconds --stall-check-shutdown-time-seconds --num-nccl-streams --thread-affinity --gloo-timeout-seconds --log-level --mpi-args --binding-args '
  for (( i = first; i < COMP_CWORD; i++ )); do
    if [[ $command != run && $command != check ]]; then
      break
    elif [[ ${COMP_WORDS[i]} != -* && $with_value != *" ${COMP_WORDS[i-1]} "* ]] ||
       [[ ${COMP_WORDS[i]} == -- ]]; then
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return
    fi
  done
  if [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$word"))
  elif [[ $command == run || $command == check ]]; then
    mapfile -t COMPREPLY < <(compgen -c -f -- "$word")
  else
    (( COMP_CWORD == first )) || verbs=
    mapfile -t COMPREPLY < <(compgen -f -W "$verbs" -- "$word")
  fi
}
complete -o filenames -F _hvdray_run hvdray horovodrun
